# ruff: noqa: INP001 - a file of the image, not of a package
"""Exit with 0 if a GET of KRAAL_HEALTH_URL (default: /health on port 8083) reports that the worker is healthy.

The certificate of an https listener is not checked, because the request does not leave the container.
"""

import os
import ssl
import sys
import urllib.error
import urllib.request

TIMEOUT_S = 8
DEFAULT_URL = "http://127.0.0.1:8083/health"

url = os.environ.get("KRAAL_HEALTH_URL", DEFAULT_URL)
context = ssl._create_unverified_context() if url.startswith("https:") else None  # noqa: S323, SLF001
opener = urllib.request.build_opener(
    urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])
)
try:
    opener.open(url, timeout=TIMEOUT_S).close()
except (OSError, urllib.error.HTTPError) as error:
    sys.exit(f"{url}: {error}")
