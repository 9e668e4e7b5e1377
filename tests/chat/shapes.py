"""Further templates that want too much, each a shape of its own; ``T`` is a long text, ``V`` many values."""

from __future__ import annotations

FURTHER: dict[str, str] = {
    "nested width": "{{ '{:{w}}'.format('x', w=10**9) }}",
    "nested width 2": "{{ '{0:{1}{2}}'.format('x', '>', 999999999) }}",
    "nested width map": "{{ '{:{w[a]}}'.format_map({'w': {'a': 10**9}}) }}",
    "star": "{{ '%*d' % (10**9, 1) }}",
    "star 2": "{{ '%-*.*f' % (10**9, 10**9, 1.5) }}",
    "star filter": "{{ '%*d'|format(10**9, 1) }}",
    "class": "{{ '{0.__class__.__mro__}'.format(1) }}",
    "class2": ("{{ '{0.__class__.__init__.__globals__}'.format(namespace()) }}"),
    "class map": "{{ '{a.__class__}'.format_map({'a': 1}) }}",
    "ns grow": (
        "{% set ns = namespace(s='x') %}{% for i in range(99999) %}{% set ns.s = ns.s ~ ns.s "
        "%}{% endfor %}{{ ns.s|length }}"
    ),
    "ns grow list": (
        "{% set ns = namespace(s=[1]) %}{% for i in range(99999) %}{% set ns.s = ns.s + ns.s "
        "%}{% endfor %}{{ ns.s|length }}"
    ),
    "ns grow int": (
        "{% set ns = namespace(s=3) %}{% for i in range(99999) %}{% set ns.s = ns.s * ns.s %}{% endfor %}{{ ns.s }}"
    ),
    "ns grow dict": (
        "{% set ns = namespace(s={}) %}{% for i in range(99999) %}{% set ns.s = dict(ns.s, "
        "**{'k' ~ i: T}) %}{% endfor %}{{ ns.s }}"
    ),
    "dict update": ("{% set d = {} %}{% for i in range(99999) %}{% set _ = d.update({i: T ~ i}) %}{% endfor %}{{ d }}"),
    "dict setdefault": (
        "{% set d = {} %}{% for i in range(99999) %}{% set _ = d.setdefault(i, T ~ i) %}{% endfor %}{{ d|length }}"
    ),
    "macro recursion": ("{% macro f(n) %}{{ f(n + 1) }}{{ f(n + 1) }}{% endmacro %}{{ f(0) }}"),
    "macro two": ("{% macro a(n) %}{{ b(n) }}{% endmacro %}{% macro b(n) %}{{ a(n) }}{% endmacro %}{{ a(1) }}"),
    "macro default": (
        "{% macro f(a=[1]*49999, b=T) %}{{ a }}{{ b }}{% endmacro %}{% for i in range(9999) %}{{ f() }}{% endfor %}"
    ),
    "map chain": ("{{ V|map('string')|map('upper')|map('lower')|map('replace', 'x', T)|list }}"),
    "chain": "{{ range(99999)" + "|map('string')" * 2000 + "|list }}",
    "gen chain": (
        "{% set ns = namespace(g=range(9)) %}{% for i in range(9000) %}{% set ns.g = "
        "ns.g|map('int') %}{% endfor %}{{ ns.g|list }}"
    ),
    "select chain": (
        "{% set ns = namespace(g=range(9)) %}{% for i in range(9000) %}{% set ns.g = "
        "ns.g|select %}{% endfor %}{{ ns.g|list }}"
    ),
    "selectattr": ("{{ ([{'a': T}]*40000)|selectattr('a')|map(attribute='a')|join }}"),
    "groupby": "{{ ([{'a': T}]*4000)|groupby('a') }}",
    "groupby2": "{{ (range(40000)|map('string')|list)|groupby(0) }}",
    "batch": "{{ range(99999)|batch(1)|map('join', T)|list }}",
    "batch fill": "{{ range(3)|batch(10**9, T)|list }}",
    "slice fill": "{{ range(3)|slice(10**9, T)|list }}",
    "batch neg": "{{ range(40000)|batch(-1)|list }}",
    "batch zero": "{{ range(40000)|batch(0)|list }}",
    "slice zero": "{{ range(40000)|slice(0)|list }}",
    "batch float": "{{ range(40000)|batch(0.5)|list }}",
    "sort same": ("{% for i in range(99) %}{{ ([T]*40000)|sort|length }}{% endfor %}"),
    "sort near": ("{{ (range(40000)|map('string')|map('replace', '', 'y'*900)|list)|sort|length }}"),
    "unique": ("{{ (range(40000)|map('string')|list * 2)|unique|list|length }}"),
    "unique texts": "{{ ([T]*40000)|unique|list }}",
    "sum lists": "{{ ([[1]*900]*900)|sum(start=[]) }}",
    "sum texts": "{{ ['a', 'b']|sum(start='') }}",
    "sum ints": "{{ ([2**60000]*40000)|sum }}",
    "range chain": "{{ range(10**15)|list|length }}",
    "range in range": ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"),
    "range index": "{{ range(10**18)[10**17] }}",
    "range in": "{{ 'a' in range(10**9) }}",
    "range in float": "{{ 1.5 in range(10**9) }}",
    "range eq": "{{ range(10**12)|max }}",
    "range sum": "{{ range(99999)|sum }}",
    "range last": "{{ range(99999)|last }}",
    "range random": "{{ range(10**15)|random }}",
    "range reverse": "{{ range(10**15)|reverse|first }}",
    "range slice": "{{ range(10**15)[::2]|length }}",
    "range count": "{{ range(99999).count(1.5) }}",
    "multiply": ("{% set n = 99999 %}{% set s = 'x' * n %}{% set t = s * n %}{{ t|length }}"),
    "multiply neg": "{{ 'x' * -(10**30) }}",
    "multiply bool": "{{ (T * true) * 99999 }}",
    "multiply list": "{% set n = 49999 %}{{ (([0] * n) * n)|length }}",
    "multiply tuple": "{{ ((0,) * 49999) * 49999 }}",
    "multiply bytes": "{{ (T.encode() * 99999)|length }}",
    "bytes": "{{ T.encode().hex(T) }}",
    "bytes join": "{{ T.encode().join([T.encode()]*9999) }}",
    "bytes replace": "{{ T.encode().replace('x'.encode(), T.encode()) }}",
    "bytes center": "{{ T.encode().center(10**9) }}",
    "bytes decode": "{{ T.encode().decode('utf-7') }}",
    "bytes format": "{{ T.encode() % 1 }}",
    "bytes zfill": "{{ T.encode().zfill(10**9) }}",
    "bytes ljust": "{{ 'a'.encode().ljust(10**10) }}",
    "bytes expand": "{{ ('\t'*60000).encode().expandtabs(10**6) }}",
    "bytes translate": "{{ T.encode().translate(none, T.encode()) }}",
    "int to_bytes": "{{ (1).to_bytes(10**9, 'big') }}",
    "int bits": "{{ (2**60000).to_bytes(10**6, 'big') }}",
    "int from": "{{ (1).from_bytes(T.encode(), 'big') }}",
    "float hex": "{{ (1.5).hex() * 99999 }}",
    "int pow": "{{ (2).__pow__(10**9) }}",
    "lshift": "{{ 1 << 10**9 }}",
    "laughs": "{% set a = [T] %}"
    + "".join(f"{{% set {chr(98 + i)} = [{chr(97 + i)}]*10 %}}" for i in range(12))
    + "{{ m|tojson }}",
    "laughs dict": "{% set a = {'k': T} %}"
    + "".join(
        f"{{% set {chr(98 + i)} = {{'a': {chr(97 + i)}, 'b': {chr(97 + i)}, 'c': {chr(97 + i)}}} %}}" for i in range(14)
    )
    + "{{ o|tojson }}",
    "laughs string": "{% set a = [T] %}"
    + "".join(f"{{% set {chr(98 + i)} = [{chr(97 + i)}]*10 %}}" for i in range(12))
    + "{{ m|string|length }}",
    "laughs eq": "{% set a = [1] %}{% set b = [1] %}"
    + "{% set a = [a, a] %}{% set b = [b, b] %}" * 40
    + "{{ a == b }}",
    "laughs lt": "{% set a = [1] %}{% set b = [1] %}" + "{% set a = [a, a] %}{% set b = [b, b] %}" * 40 + "{{ a < b }}",
    "laughs in": "{% set a = [1] %}{% set b = [1] %}"
    + "{% set a = [a, a] %}{% set b = [b, b] %}" * 40
    + "{{ a in [b] }}{{ [b].index(a) }}",
    "laughs count": "{% set a = [1] %}{% set b = [1] %}"
    + "{% set a = [a, a] %}{% set b = [b, b] %}" * 40
    + "{{ [b].count(a) }}{{ [b].remove(a) }}",
    "laughs sort": "{% set a = [1] %}{% set b = [1] %}"
    + "{% set a = [a, a] %}{% set b = [b, b] %}" * 40
    + "{{ [a, b]|sort }}{{ [a,b]|unique|list }}",
    "laughs hash": "{% set a = (1,) %}" + "{% set a = (a, a) %}" * 60 + "{{ {a: 1} }}",
    "laughs hash in": "{% set a = (1,) %}" + "{% set a = (a, a) %}" * 60 + "{{ a in {} }}{{ {}.get(a) }}",
    "laughs unique": "{% set a = (1,) %}" + "{% set a = (a, a) %}" * 60 + "{{ [a, a]|unique|list|length }}",
    "laughs groupby": "{% set a = (1,) %}{% set b = (1,) %}"
    + "{% set a = (a, a) %}{% set b = (b, b) %}" * 60
    + "{{ [{'k': a}, {'k': b}]|groupby('k')|length }}",
    "laughs dictsort": "{% set a = (1,) %}{% set b = (1,) %}"
    + "{% set a = (a, a) %}{% set b = (b, b) %}" * 60
    + "{{ {'x': a, 'y': b}|dictsort(by='value')|length }}",
    "laughs max": "{% set a = (1,) %}{% set b = (1,) %}"
    + "{% set a = (a, a) %}{% set b = (b, b) %}" * 60
    + "{{ [a, b]|max|length }}",
    "laughs format": "{% set a = [T] %}"
    + "{% set a = [a, a] %}" * 40
    + "{{ '%s' % [a] }}{{ '{}'.format(a) }}{{ '%r'|format(a) }}",
    "laughs concat": "{% set a = [T] %}" + "{% set a = [a, a] %}" * 40 + "{{ 'x' ~ a }}",
    "laughs print": "{% set a = [T] %}" + "{% set a = [a, a] %}" * 40 + "{{ a }}",
    "laughs raise": "{% set a = [T] %}" + "{% set a = [a, a] %}" * 40 + "{{ raise_exception(a) }}",
    "laughs items": "{% set a = {'k': T} %}"
    + "{% set a = {'a': a.items(), 'b': a.values()} %}" * 40
    + "{{ a }}{{ a|tojson }}",
    "laughs urlencode": "{% set a = {'k': T} %}" + "{% set a = {'a': a, 'b': a} %}" * 40 + "{{ a|urlencode }}",
    "laughs xmlattr": "{% set a = {'k': T} %}" + "{% set a = {'a': a, 'b': a} %}" * 40 + "{{ a|xmlattr }}",
    "laughs pprint": "{% set a = {'k': T} %}" + "{% set a = {'a': a, 'b': a} %}" * 40 + "{{ a|pprint }}",
    "laughs filesize": "{{ (2**60000)|filesizeformat }}",
    "urlize": "{{ ('http://a.b '*5000)|urlize(9, target=T, rel=T) }}",
    "urlize brackets": "{{ ('('*30000 ~ 'http://a.b' ~ ')'*30000)|urlize }}",
    "striptags": "{{ ('<'*60000)|striptags }}",
    "striptags 2": "{{ ('<!--'*15000)|striptags }}",
    "wordwrap": "{{ T|wordwrap(1, wrapstring=T) }}",
    "wordwrap 2": "{{ (('x '*30000))|wordwrap(1, true, T) }}",
    "wordcount": "{{ ('x '*30000)|wordcount }}",
    "xmlattr": "{{ dict(a=T, b=T)|xmlattr }}",
    "urlencode": "{{ ('\u6f22'*60000)|urlencode }}",
    "forceescape": "{{ ('<'*60000)|forceescape|forceescape|forceescape }}",
    "escape thrice": "{{ ('<'*60000)|e|string|e|string|e }}",
    "title": "{{ ('\u1e9e'*60000)|upper|lower|title }}",
    "upper sharp": "{{ ('\u0149'*65000)|upper }}{{ ('\ufb03'*65000)|upper }}",
    "casefold": "{{ ('\ufb03'*65000).casefold() }}{{ ('\u0390'*65000).upper() }}",
    "strftime": "{{ strftime_now('%c' * 30000) }}",
    "strftime 2": ("{{ strftime_now('%10000d') }}{{ strftime_now('%_99999d') }}{{ strftime_now('%E99999Y') }}"),
    "strftime 3": "{{ strftime_now('%' * 60001) }}",
    "strftime 4": (
        "{{ strftime_now('%+9999999Y') }}{{ strftime_now('%O999999d') }}{{ "
        "strftime_now('%#99999999c') }}{{ strftime_now('%:::z' * 999) }}"
    ),
    "strftime nul": "{{ strftime_now('a\\x00b') }}",
    "strftime sur": "{{ strftime_now('\\ud800') }}",
    "replace explode": (
        "{% set ns = namespace(s='x') %}{% for i in range(60) %}{% set ns.s = "
        "ns.s|replace('x', 'xxxxxxxxxx') %}{% endfor %}{{ ns.s|length }}"
    ),
    "replace empty": "{{ T|replace('', T) }}{{ T.replace('', T) }}",
    "replace count": "{{ T.replace('x', T, 10**30) }}{{ T.replace('x', T, -1) }}",
    "slices": ("{% for i in range(9999) %}{% set a = T[i:] %}{% set b = T[::-1] %}{% endfor %}"),
    "slice step": "{{ T[::10**30] }}{{ T[-10**30:10**30] }}",
    "slice neg": "{{ V[::-1][::-1][::-1] }}",
    "list of text": "{{ T|list|length }}{{ (T|list)|join|list|join|list|length }}",
    "list of list": "{% for i in range(999) %}{% set a = T|list %}{% endfor %}",
    "call block": (
        "{% macro f() %}{% for i in range(9999) %}{{ caller() }}{% endfor %}{% endmacro %}{% "
        "call f() %}{{ T }}{% endcall %}"
    ),
    "call nested": "{% macro f() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    + "{% call f() %}" * 90
    + "x"
    + "{% endcall %}" * 90,
    "include": "{% include 'x' %}",
    "include var": "{% include T %}",
    "import": "{% import 'x' as y %}",
    "extends": "{% extends T %}",
    "include list": "{% include [T]*9999 ignore missing %}",
    "self": "{% block a %}{{ self.a() }}{% endblock %}",
    "block super": "{% block a %}{{ super() }}{% endblock %}",
    "block deep": "".join(f"{{% block b{i} %}}" for i in range(400)) + "{% endblock %}" * 400,
    "lipsum": "{{ lipsum(n=10**9) }}",
    "lipsum 2": "{{ lipsum(1, min=10**9, max=10**9+1) }}",
    "cycler": "{{ cycler(*range(99999)).next() }}",
    "joiner": ("{% set j = joiner(T) %}{% for i in range(9999) %}{{ j() }}{% endfor %}"),
    "loop cycle": "{% for i in range(9999) %}{{ loop.cycle(T, T) }}{% endfor %}",
    "loop changed": ("{% for i in range(9999) %}{{ loop.changed(T, V) }}{% endfor %}"),
    "loop recursive": "{% for i in [1] recursive %}{{ loop([i, i]) }}{% endfor %}",
    "loop depth": ("{% for i in [[[1]]] recursive %}{{ loop.depth }}{{ loop([i]) }}{% endfor %}"),
    "loop lengths": ("{% for i in range(99999) %}{{ loop.length }}{{ loop.revindex }}{% endfor %}"),
    "loop previtem": "{% for i in [V]*9999 %}{{ loop.previtem }}{% endfor %}",
    "pop": ("{% set l = range(49999)|list %}{% for i in range(49999) %}{% set _ = l.insert(0, T) %}{% endfor %}"),
    "extend": ("{% set l = [1] %}{% for i in range(99) %}{% set _ = l.extend(l) %}{% endfor %}{{ l|length }}"),
    "iadd": ("{% set l = [1] %}{% for i in range(99) %}{% set _ = l.__iadd__(l) %}{% endfor %}"),
    "imul": "{% set l = [1] %}{% set _ = l.__imul__(10**9) %}",
    "copy": ("{% set l = [T]*49999 %}{% for i in range(9999) %}{% set m = l.copy() %}{% endfor %}"),
    "fromkeys": "{{ {}.fromkeys(range(10**9), T)|length }}",
    "dict of range": "{{ dict(range(99999)|batch(2))|length }}",
    "dict zip": "{{ {}.fromkeys(T)|length }}",
    "popitem": ("{% set d = dict(a=1) %}{% for i in range(99999) %}{% set _ = d.update(d) %}{% endfor %}"),
    "list sort key": "{% set l = V|list %}{% set _ = l.sort() %}",
    "list reverse": ("{% set l = range(49999)|list %}{% for i in range(9999) %}{% set _ = l.reverse() %}{% endfor %}"),
    "list index": ("{% set l = [T ~ 'x']*49999 %}{% for i in range(999) %}{{ l.count(T ~ 'y') }}{% endfor %}"),
    "text in": "{{ ('x'*30000 ~ 'y') in ('x'*60000) }}",
    "text find": (
        "{% for i in range(999) %}{{ T.find('x'*30000 ~ 'y') }}{{ T.rfind('y' ~ 'x'*30000) }}"
        "{{ T.count('xx') }}{% endfor %}"
    ),
    "text count": (
        "{% for i in range(9999) %}{{ T.count('xy') }}{{ T.index('x') }}{{ T.startswith(('y',)*49999) }}{% endfor %}"
    ),
    "endswith": "{{ T.endswith((T,)*40000) }}",
    "startswith": "{{ T.startswith((T ~ 'y',)*40000) }}",
    "maketrans": "{{ 'x'.maketrans('x', 'y') }}{{ T.translate({120: T}) }}",
    "encode": ("{{ T.encode('unicode_escape') }}{{ ('\U0001f600'*60000).encode('unicode_escape')|string }}"),
    "encode idna": "{{ T.encode('idna') }}{{ ('\u6f22'*60000).encode('punycode') }}",
    "encode punycode": "{{ ('\u6f22\u5b57a'*20000).encode('punycode') }}",
    "encode zip": "{{ T.encode('zip') }}{{ T.encode('bz2') }}",
    "isdigit": ("{% for i in range(9999) %}{{ T.isalnum() }}{{ T.isidentifier() }}{% endfor %}"),
    "int parse": "{{ ('9'*60000)|int }}",
    "int parse 2": "{{ ('9'*4300)|int * ('9'*4300)|int }}",
    "float parse": "{{ ('9'*60000)|float }}",
    "int base": "{{ ('z'*60000)|int(base=36) }}{{ ('f'*60000)|int(base=16) }}",
    "int str": (
        "{{ (2**65000)|string }}{{ '%i' % 2**65000 }}{{ '{:d}'.format(2**65000) }}{{ '{:,}'.format(2**65000) }}"
    ),
    "abs": "{{ (2**65000)|abs|string|length }}",
    "round": ("{{ (1.5)|round(10**9) }}{{ (2**65000)|round(-10**6) }}{{ (2**65000)|round(3, 'floor') }}"),
    "pow": "{{ 2 ** 2 ** 2 ** 2 ** 2 ** 2 }}",
    "pow neg": "{{ (2**60000) ** -1 }}{{ 2.0 ** 99999 }}",
    "mod": ("{{ (7**20000) % (3**20000) }}{{ divisibleby is defined }}{{ (7**20000) is divisibleby(3**10000) }}"),
    "mul big": ("{% set ns = namespace(n=7**20000) %}{% for i in range(9999) %}{% set x = ns.n * ns.n %}{% endfor %}"),
    "div big": (
        "{% set a = 7**23000 %}{% set b = 3**10000 %}{% for i in range(99999) %}{% set x = a // b %}{% endfor %}"
    ),
    "complex": ("{{ (1).conjugate() }}{{ (1.5).as_integer_ratio() }}{{ (1e308).as_integer_ratio()[0] ** 60 }}"),
    "neg": ("{% set a = 7**20000 %}{% for i in range(99999) %}{% set x = -a %}{% endfor %}"),
    "truncate": (
        "{{ T|truncate(10**30, true, T, 10**30) }}{{ T|truncate(3, true, '') }}{{ T|truncate(-5, false, 'abc', -9) }}"
    ),
    "center": "{{ 'x'|center(10**30) }}{{ 'x'|center(width=T) }}",
    "indent": ("{{ ('\n'*60000)|indent(T) }}{{ ('\n'*60000)|indent(999, true, true) }}"),
    "indent 2": "{{ ('a\n'*30000)|indent('y'*30000) }}",
    "tojson nest": (
        "{% set ns = namespace(a=[]) %}{% for i in range(9999) %}{% set ns.a = [ns.a] %}{% "
        "endfor %}{{ ns.a|tojson }}{{ ns.a|string }}{{ ns.a == [] }}"
    ),
    "tojson keys": ("{{ {1: T, 2.5: T, none: T, true: T}|tojson(sort_keys=true) }}"),
    "tojson esc": "{{ ('\U0001f600'*60000)|tojson }}{{ ('<'*60000)|tojson }}",
    "tojson indent": "{{ [[[[[[[[[1]*900]]]]]]]]|tojson(indent=999) }}",
    "tojson sep": "{{ ([1]*40000)|tojson(separators=('x'*900, 'y')) }}",
    "deep compare": (
        "{% set ns = namespace(a=[], b=[]) %}{% for i in range(9999) %}{% set ns.a = [ns.a] "
        "%}{% set ns.b = [ns.b] %}{% endfor %}{{ ns.a == ns.b }}"
    ),
    "self list": ("{% set a = [] %}{% set _ = a.append(a) %}{{ a }}{{ a|tojson }}{{ a == a }}{{ a|sort }}"),
    "self pair": ("{% set a = [] %}{% set b = [] %}{% set _ = a.append(b) %}{% set _ = b.append(a) %}{{ a == b }}"),
    "self dict": ("{% set d = {} %}{% set _ = d.update(a=d) %}{{ d }}{{ d|tojson }}{{ d|items|list }}"),
    "namespace in itself": ("{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}{{ ns.a.a.a }}{{ [ns]|tojson }}"),
    "namespace sized": "{{ namespace(range(9)|batch(2)) }}",
    "if chain": "{{ " + "1 if 0 else " * 3000 + "2 }}",
    "and chain": "{{ " + "1 and " * 9000 + "2 }}",
    "compare chain": "{{ 1" + " < 2" * 9000 + " }}",
    "concat chain": "{{ T" + " ~ T" * 900 + " }}",
    "filter chain": "{{ T" + "|upper" * 9000 + " }}",
    "test chain": "{{ 1" + " is defined" * 3000 + " }}",
    "call chain": "{{ x" + "()" * 9000 + " }}",
    "item chain": "{{ x" + "[0]" * 9000 + " }}",
    "unary": "{{ " + "-" * 9000 + "1 }}",
    "dict lit": "{{ {" + "'a':T," * 9000 + "} }}",
    "list lit": "{{ [" + "T," * 20000 + "]|tojson }}",
    "for nest": "{% for i in range(9) %}" * 60 + "x" + "{% endfor %}" * 60,
    "set many": "".join("{% set a" + str(i) + " = V %}" for i in range(2000)),
    "macro many": "".join("{% macro a" + str(i) + "() %}x{% endmacro %}" for i in range(3000)),
    "with": "{% with a = T %}" * 300 + "{{ a }}" + "{% endwith %}" * 300,
    "filter blocks": "{% filter upper %}" * 90 + "{{ T }}" + "{% endfilter %}" * 90,
    "set block": "{% set x %}" * 90 + "{{ T }}" + "{% endset %}" * 90,
    "autoescape": "{% autoescape true %}" * 90 + "{{ T }}" + "{% endautoescape %}" * 90,
    "generation": "{% generation %}" * 90 + "{{ T }}" + "{% endgeneration %}" * 90,
    "break": "{% for i in range(99999) %}{% continue %}{% endfor %}",
    "trans": "{% trans %}x{% endtrans %}",
    "debug": "{% debug %}{{ debug() }}",
    "do": "{% do [].append(T) %}",
    "attr": "{{ T|attr('__class__') }}{{ ''|attr('format')(T) }}",
    "map attr": "{{ [T]|map(attribute='__class__.__mro__')|list }}",
    "map format": "{{ ['{:>999999999}', '%999999999d']|map('format', 1)|list }}",
    "map center": "{{ [T]*9|map('center', 10**9)|list }}",
    "map method": "{{ (['x']*40000)|map('replace', 'x', T)|join }}",
    "map indent": "{{ (['\n'*900]*900)|map('indent', 999)|join }}",
    "map list": ("{{ ([T]*900)|map('list')|map('join')|map('list')|list|length }}"),
    "map batch": "{{ ([T]*90)|map('batch', 1)|map('list')|list|length }}",
    "map tojson": "{{ ([V]*90)|map('tojson')|join }}",
    "map string": "{{ ([V]*90)|map('string')|join }}",
    "map int": "{{ (['9'*4000]*9000)|map('int')|sum }}",
    "map default": "{{ ([]*9)|map(attribute='x', default=V)|list }}",
    "reject": "{{ (range(99999)|reject('odd')|list)|length }}",
    "select in": ("{{ range(40000)|select('in', range(40000)|list)|list|length }}"),
    "select eq": "{{ ([T]*9000)|select('eq', T ~ '')|list|length }}",
    "select test": "{{ ([T]*9000)|select('sameas', T)|list|length }}",
    "rejectattr": ("{{ ([dict(a=T)]*9000)|rejectattr('a', 'equalto', T ~ 'x')|list|length }}"),
}
