# Sourced, never run. Defines kraal_setup, which makes ready what a script needs and costs next to nothing when
# all is there. See scripts/README.md.

# kraal_setup [GROUP...]
# Goes to the root of the repository and puts its virtual environment first in PATH; makes the environment from the
# lock files, and fetches the jars of each GROUP of kraal/jars/jars.lock, which also asks for Java, where they are not
# there yet; for spark also the archive of its classes. On failure: one sentence on stderr and exit 1.
kraal_setup() {
    KRAAL_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || exit 1
    cd "$KRAAL_ROOT" || exit 1
    _kraal_find_python
    if [ $# -gt 0 ]; then
        # Before the packages: nobody should wait for those to learn that Java is missing.
        "$_kraal_python" -m kraal.jars.java >/dev/null || exit 1
    fi
    if ! _kraal_is_ready; then
        _kraal_lock
        _kraal_is_ready || _kraal_make_environment
        exec 9>&-
    fi
    export VIRTUAL_ENV="$KRAAL_ROOT/.venv" PATH="$KRAAL_ROOT/.venv/bin:$PATH"
    # Without bytecode on disk, each of the hundreds of processes of a test run compiles Kraal again.
    unset PYTHONHOME PYTHONDONTWRITEBYTECODE
    if [ $# -gt 0 ]; then
        kraal jars "$@" >/dev/null || exit 1
        # Without it all works, but Spark takes longer to start.
        case " $* " in *" spark "*) kraal prepare >/dev/null || true ;; esac
    fi
}

_kraal_fail() {
    echo "$1" >&2
    exit 1
}

_kraal_find_python() {
    local candidate
    for candidate in ${KRAAL_PYTHON:+"$KRAAL_PYTHON"} python3 python3.11 python3.12 python3.13 python3.14; do
        # Not the Python of a virtual environment: .venv may be active, and is removed when its packages change.
        if _kraal_python=$("$candidate" -c \
            'import sys; sys.version_info < (3, 11) and sys.exit(1); print(sys._base_executable)' 2>/dev/null); then
            return
        fi
    done
    _kraal_fail "Python 3.11 or newer was not found: install it, or set KRAAL_PYTHON to it."
}

_kraal_digest() {
    # The place is part of it: an environment that was moved does not work.
    { echo "$KRAAL_ROOT"; cat "$@"; } | { sha256sum 2>/dev/null || shasum -a 256; } | cut -d ' ' -f 1
}

_kraal_is() { [ "$(cat ".venv/$1" 2>/dev/null)" = "$2" ]; }

_kraal_is_ready() {
    _kraal_locks=$(_kraal_digest requirements-build.lock requirements.lock)
    _kraal_project=$(_kraal_digest pyproject.toml)
    _kraal_is kraal-locks "$_kraal_locks" && _kraal_is kraal-project "$_kraal_project"
}

_kraal_lock() {
    exec 9>.venv.lock || _kraal_fail "The directory $KRAAL_ROOT cannot be written."
    if command -v flock >/dev/null && ! flock -n 9; then
        echo "another script sets up .venv; waiting for it" >&2
        flock 9
    fi
}

_kraal_make_environment() {
    local pip=".venv/bin/python -m pip --disable-pip-version-check install --retries 2 --no-compile"
    if ! _kraal_is kraal-locks "$_kraal_locks"; then
        rm -rf .venv
        _kraal_watch "making the virtual environment .venv" "$_kraal_python" -m venv .venv
        # What builds comes first, and then nothing is built with anything else.
        _kraal_watch "installing what builds packages" $pip --require-hashes -r requirements-build.lock
        _kraal_watch "installing the locked packages (PySpark alone is 400 MB)" \
            $pip --require-hashes --no-build-isolation -r requirements.lock
        echo "$_kraal_locks" >.venv/kraal-locks
    fi
    _kraal_watch "installing Kraal, editable" $pip --no-deps --no-build-isolation --no-index -e .
    echo "$_kraal_project" >.venv/kraal-project
}

# _kraal_watch TEXT COMMAND...: run it with its output in a log; say what it is doing and that it still does.
_kraal_watch() {
    local text=$1
    shift
    echo "$text" >&2
    (
        log=$(mktemp) || exit 1
        "$@" >"$log" 2>&1 9>&- </dev/null &
        command=$!
        trap 'kill "$command" 2>/dev/null; rm -f "$log"; exit 130' INT TERM
        every=10
        [ -t 2 ] && every=1
        start=$SECONDS
        while kill -0 "$command" 2>/dev/null; do
            sleep 0.2
            now=$((SECONDS - start))
            if [ "$now" -ge "${due:=2}" ]; then
                due=$((now + every))
                _kraal_show "  $now s $(grep -E '^ *(Collecting|Downloading|Building|Installing)' "$log" | tail -n 1 | cut -c 1-80)"
            fi
        done
        [ -t 2 ] && [ -n "${due:-}" ] && printf '\r\033[K' >&2
        if wait "$command"; then
            rm -f "$log"
            exit 0
        fi
        _kraal_explain "$text" "$log"
        exit 1
    ) || exit $?
}

_kraal_show() {
    if [ -t 2 ]; then printf '\r\033[K%s' "$1" >&2; else echo "$1" >&2; fi
}

_kraal_explain() {
    if grep -qE 'NewConnectionError|name resolution|ConnectTimeout|No matching distribution|Max retries|ProxyError' "$2"; then
        echo "Could not finish $1: the package index cannot be reached; is there a network? (log: $2)" >&2
    elif grep -q 'DO NOT MATCH THE HASHES' "$2"; then
        echo "Could not finish $1: a package is not the one that was locked. (log: $2)" >&2
    elif grep -q ensurepip "$2"; then
        echo "Could not finish $1: $_kraal_python lacks ensurepip; install Python's venv package. (log: $2)" >&2
    else
        echo "Could not finish $1: $(grep -E 'ERROR|rror:' "$2" | tail -n 1) (log: $2)" >&2
    fi
}
