# ruff: noqa: INP001 - a file of a pod, not of a package
"""Request the health of a worker with credentials from files.

A probe must not contain credentials, because anyone who may list pods can read the definition of a probe.

The arguments are the URL, and the directory of the files `username` and `password`.
"""

import base64
import http.client
import pathlib
import ssl
import sys
import urllib.parse

TIMEOUT_S = 60

url, directory = urllib.parse.urlsplit(sys.argv[1]), pathlib.Path(sys.argv[2])
user, password = ((directory / name).read_bytes().strip() for name in ("username", "password"))
credentials = base64.b64encode(user + b":" + password).decode()
if url.scheme == "https":
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # like the probes of Kubernetes
    connection = http.client.HTTPSConnection(url.netloc, timeout=TIMEOUT_S, context=context)
else:
    connection = http.client.HTTPConnection(url.netloc, timeout=TIMEOUT_S)
try:
    connection.request("GET", url.path, headers={"Authorization": f"Basic {credentials}"})
    response = connection.getresponse()
except (OSError, http.client.HTTPException) as error:
    sys.exit(f"{url.geturl()}: {error}")
if response.status != http.client.OK:
    sys.exit(f"{url.geturl()}: {response.status} {response.reason}")
