# Sourced by other scripts. Defines kraal_setup, which prepares the environment of a script and returns quickly when the
# environment is complete. See scripts/README.md.

# kraal_setup [GROUP...]
# Changes to the root of the repository and puts its virtual environment first in PATH. Creates the virtual environment
# from the lock files if it is missing or outdated. Downloads the missing jars of each GROUP of kraal/jars/jars.lock, and
# requires Java if a group is given. For the group spark, also creates the class archive. On failure, prints one line to
# stderr and exits with 1.
kraal_setup() {
    KRAAL_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd) || exit 1
    cd "$KRAAL_ROOT" || exit 1
    _kraal_find_python
    if [ $# -gt 0 ]; then
        # Checked before packages are installed, so that a missing Java is reported immediately.
        "$_kraal_python" -m kraal.jars.java >/dev/null || exit 1
    fi
    if ! _kraal_is_ready; then
        _kraal_lock
        _kraal_is_ready || _kraal_create_environment
        exec 9>&-
    fi
    export VIRTUAL_ENV="$KRAAL_ROOT/.venv" PATH="$KRAAL_ROOT/.venv/bin:$PATH"
    # Without bytecode on disk, each of the hundreds of processes of a test run would compile Kraal again.
    unset PYTHONHOME PYTHONDONTWRITEBYTECODE
    if [ $# -gt 0 ]; then
        kraal jars "$@" >/dev/null || exit 1
        # The class archive is optional; Spark starts faster with it.
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
        # The base Python, because .venv may be active, and is removed when its packages change.
        if _kraal_python=$("$candidate" -c \
            'import sys; sys.version_info < (3, 11) and sys.exit(1); print(sys._base_executable)' 2>/dev/null); then
            return
        fi
    done
    _kraal_fail "Python 3.11 or newer was not found. Install it, or set KRAAL_PYTHON to its path."
}

_kraal_digest() {
    # The digest includes the path, because a virtual environment cannot be moved.
    { echo "$KRAAL_ROOT"; cat "$@"; } | { sha256sum 2>/dev/null || shasum -a 256; } | cut -d ' ' -f 1
}

_kraal_is() { [ "$(cat ".venv/$1" 2>/dev/null)" = "$2" ]; }

_kraal_is_ready() {
    _kraal_locks=$(_kraal_digest requirements-build.lock requirements.lock)
    _kraal_project=$(_kraal_digest pyproject.toml)
    _kraal_is kraal-locks "$_kraal_locks" && _kraal_is kraal-project "$_kraal_project"
}

_kraal_lock() {
    exec 9>.venv.lock || _kraal_fail "The directory $KRAAL_ROOT is not writable."
    if command -v flock >/dev/null && ! flock -n 9; then
        echo "waiting for another script that sets up .venv" >&2
        flock 9
    fi
}

_kraal_create_environment() {
    local pip=".venv/bin/python -m pip --disable-pip-version-check install --retries 2 --no-compile"
    if ! _kraal_is kraal-locks "$_kraal_locks"; then
        rm -rf .venv
        _kraal_watch "creating the virtual environment .venv" "$_kraal_python" -m venv .venv
        # Build dependencies are installed first; other packages are then built only with them.
        _kraal_watch "installing build dependencies" $pip --require-hashes -r requirements-build.lock
        _kraal_watch "installing the locked packages (PySpark alone is 400 MB)" \
            $pip --require-hashes --no-build-isolation -r requirements.lock
        echo "$_kraal_locks" >.venv/kraal-locks
    fi
    _kraal_watch "installing Kraal in editable mode" $pip --no-deps --no-build-isolation --no-index -e .
    echo "$_kraal_project" >.venv/kraal-project
}

# _kraal_watch TEXT COMMAND...: runs the command with its output in a log; prints TEXT and, regularly, the progress.
_kraal_watch() {
    local text=$1
    shift
    echo "$text" >&2
    (
        log=$(mktemp) || exit 1
        "$@" >"$log" 2>&1 9>&- </dev/null &
        command=$!
        trap 'kill "$command" 2>/dev/null; rm -f "$log"; exit 130' INT TERM
        interval=10
        [ -t 2 ] && interval=1
        start=$SECONDS
        while kill -0 "$command" 2>/dev/null; do
            sleep 0.2
            now=$((SECONDS - start))
            if [ "$now" -ge "${next_report:=2}" ]; then
                next_report=$((now + interval))
                _kraal_show "  $now s $(grep -E '^ *(Collecting|Downloading|Building|Installing)' "$log" | tail -n 1 | cut -c 1-80)"
            fi
        done
        [ -t 2 ] && [ -n "${next_report:-}" ] && printf '\r\033[K' >&2
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
        echo "Could not finish $1: the package index is unreachable; check the network connection. (log: $2)" >&2
    elif grep -q 'DO NOT MATCH THE HASHES' "$2"; then
        echo "Could not finish $1: the hash of a package does not match the lock file. (log: $2)" >&2
    elif grep -q ensurepip "$2"; then
        echo "Could not finish $1: $_kraal_python lacks ensurepip; install Python's venv package. (log: $2)" >&2
    else
        echo "Could not finish $1: $(grep -E 'ERROR|rror:' "$2" | tail -n 1) (log: $2)" >&2
    fi
}
