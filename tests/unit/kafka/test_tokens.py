from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from kraal.config.clients.security import OAuthLogin
from kraal.config.values import Password
from kraal.core.errors import StoreError
from kraal.kafka.tokens import TokenProvider
from tests.fakes.kafka.token_endpoint import TokenEndpoint, token_endpoint


class Clock:
    """A clock that is advanced by tests."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with token_endpoint() as token_server:
        yield token_server


def make_provider(endpoint: TokenEndpoint, clock: Clock, scope: str | None = None) -> TokenProvider:
    login = OAuthLogin(
        url=endpoint.url,
        client_id="me",
        client_secret=Password("hush"),
        scope=scope,
        extensions={"a": "b"},
        trusted=None,
        connect_timeout_s=5,
        read_timeout_s=5,
    )
    return TokenProvider(login, clock=clock)


def test_token_is_requested_with_client_credentials(endpoint: TokenEndpoint) -> None:
    provider = make_provider(endpoint, Clock(), "kafka all")
    assert provider.token() == "token-1"
    assert provider.extensions() == {"a": "b"}
    ((authorization, body),) = endpoint.requests
    assert authorization == f"Basic {base64.b64encode(b'me:hush').decode()}"
    assert body == "grant_type=client_credentials&scope=kafka+all"


def test_valid_token_is_reused(endpoint: TokenEndpoint) -> None:
    clock = Clock()
    provider = make_provider(endpoint, clock)
    assert provider.token() == "token-1"
    clock.now += 79
    assert provider.token() == "token-1"
    assert len(endpoint.requests) == 1


def test_next_token_is_fetched_before_expiry(endpoint: TokenEndpoint) -> None:
    clock = Clock()
    provider = make_provider(endpoint, clock)
    provider.token()
    clock.now += 81
    assert provider.token() == "token-1"
    if (refresh_thread := provider._refresh_thread) is not None:
        refresh_thread.join(5)
    assert provider.token() == "token-2"


def test_token_close_to_expiry_is_refreshed(endpoint: TokenEndpoint) -> None:
    clock = Clock()
    provider = make_provider(endpoint, clock)
    provider.token()
    clock.now += 96
    assert provider.token() == "token-2"


def test_failed_refresh_keeps_token_and_is_retried(
    endpoint: TokenEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    provider = make_provider(endpoint, clock)
    provider.token()
    clock.now += 81
    endpoint.status = 503
    assert provider.token() == "token-1"
    if (refresh_thread := provider._refresh_thread) is not None:
        refresh_thread.join(5)
    assert "status 503; using the last token until it expires" in caplog.text
    clock.now += 20
    with pytest.raises(StoreError, match="status 503"):
        provider.token()
    endpoint.status = 200
    assert provider.token() == "token-4"


@pytest.mark.parametrize(
    "content", [{"error": "hush"}, [], "hush", {"access_token": "hush", "expires_in": "soon"}]
)
def test_error_for_response_without_token_omits_content(endpoint: TokenEndpoint, content: object) -> None:
    endpoint.respond = lambda _: content
    with pytest.raises(StoreError, match="the response has no access_token") as error:
        make_provider(endpoint, Clock()).token()
    assert "hush" not in f"{error.value!r}{error.value.__cause__!r}"


def test_error_for_unreachable_endpoint_contains_url(endpoint: TokenEndpoint) -> None:
    endpoint.url = "http://127.0.0.1:1/token"
    with pytest.raises(StoreError, match=r"failed to get a token from http://127\.0\.0\.1:1/token: "):
        make_provider(endpoint, Clock()).token()
