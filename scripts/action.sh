#!/bin/sh
# The step of action.yml: inputs in the environment, annotations on stdout, exit code of lint.
set -eu
set -f

# Words of these two are separated by blanks and newlines; nothing in them is expanded.
# shellcheck disable=SC2086
set -- $ARGS -- $MODELS
[ -z "$POLICY" ] || set -- --policy "$POLICY" "$@"
[ -z "$LLAMA_CPP_BUILD" ] || set -- --build "$LLAMA_CPP_BUILD" "$@"
[ -z "$CACHE_TYPE" ] || set -- --cache-type "$CACHE_TYPE" "$@"
CTX=${CTX:-$CONTEXT_LENGTH}
[ -z "$CTX" ] || set -- --ctx "$CTX" "$@"

if [ -n "$SARIF" ]; then
    gguftool lint --exit-zero --format sarif "$@" > "$SARIF"
fi
exec gguftool lint --fail-on "$FAIL_ON" --format github "$@"
