# Writes the properties file of this pod's worker: the common keys, its address, and its static assignments.
# Environment: POD_NAME; DOMAIN (of the headless Service). Arguments: directory of the chart's files, output file.
set -eu
umask 077
assignment="$1/assignment-${POD_NAME##*-}.properties"
{
    cat "$1/worker.properties"
    echo
    echo "rest.advertised.host.name=$POD_NAME.$DOMAIN"
    if [ -f "$assignment" ]; then cat "$assignment"; fi
} >"$2"
