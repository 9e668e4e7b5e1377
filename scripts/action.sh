#!/bin/sh
# The step of action.yml: inputs in the environment, annotations on stdout, exit code of lint.
set -eu
set -f

unset CDPATH
case $WORKING_DIRECTORY in
/*) cd "$WORKING_DIRECTORY" ;;
*) cd "./$WORKING_DIRECTORY" ;;
esac

blanks=$(printf ' \t\r')
newline='
'

# Whether a line is several models: it is no name itself, and each of its words ends as a model or is an address.
is_list() {
    [ ! -e "$1" ] || return 1
    IFS=$blanks
    for word in $1; do
        case $word in
        *.gguf | *.GGUF | *://*) ;;
        *) return 1 ;;
        esac
    done
}

# Words of a line are data: nothing is expanded, and gguftool takes patterns itself.
set --
IFS=$newline
for line in $MODELS; do
    line=${line#"${line%%[!"$blanks"]*}"}
    line=${line%"${line##*[!"$blanks"]}"}
    [ -n "$line" ] || continue
    if is_list "$line"; then
        IFS=$blanks
        # shellcheck disable=SC2086
        set -- "$@" $line
    else
        set -- "$@" "$line"
    fi
done
IFS=$blanks$newline
# shellcheck disable=SC2086
set -- $ARGS -- "$@"
[ -z "$CONFIG" ] || set -- --config "$CONFIG" "$@"
[ -z "$BASELINE" ] || set -- --baseline "$BASELINE" "$@"
[ -z "$POLICY" ] || set -- --policy "$POLICY" "$@"
[ -z "$LLAMA_CPP_BUILD" ] || set -- --build "$LLAMA_CPP_BUILD" "$@"
[ -z "$CACHE_TYPE" ] || set -- --cache-type "$CACHE_TYPE" "$@"
CTX=${CTX:-$CONTEXT_LENGTH}
[ -z "$CTX" ] || set -- --ctx "$CTX" "$@"

if [ -n "$SARIF" ]; then
    gguftool lint --exit-zero --format sarif --output-file "$SARIF" "$@" >&2
fi
exec gguftool lint --fail-on "$FAIL_ON" --format github "$@"
