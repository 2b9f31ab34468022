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
    """A clock that stands until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def endpoint() -> Iterator[TokenEndpoint]:
    with token_endpoint() as served:
        yield served


def provider_of(endpoint: TokenEndpoint, clock: Clock, scope: str | None = None) -> TokenProvider:
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


def test_a_token_is_requested_by_client_credentials(endpoint: TokenEndpoint) -> None:
    provider = provider_of(endpoint, Clock(), "kafka all")
    assert provider.token() == "token-1"
    assert provider.extensions() == {"a": "b"}
    ((authorization, body),) = endpoint.requests
    assert authorization == f"Basic {base64.b64encode(b'me:hush').decode()}"
    assert body == "grant_type=client_credentials&scope=kafka+all"


def test_a_good_token_is_used_again(endpoint: TokenEndpoint) -> None:
    clock = Clock()
    provider = provider_of(endpoint, clock)
    assert provider.token() == "token-1"
    clock.now += 79
    assert provider.token() == "token-1"
    assert len(endpoint.requests) == 1


def test_the_next_token_is_fetched_while_the_last_is_good(endpoint: TokenEndpoint) -> None:
    clock = Clock()
    provider = provider_of(endpoint, clock)
    provider.token()
    clock.now += 81
    assert provider.token() == "token-1"
    refreshing = provider._refreshing
    assert refreshing is not None
    refreshing.join(5)
    assert provider.token() == "token-2"


def test_token_close_to_expiry_is_refreshed(endpoint: TokenEndpoint) -> None:
    clock = Clock()
    provider = provider_of(endpoint, clock)
    provider.token()
    clock.now += 96
    assert provider.token() == "token-2"


def test_a_refresh_that_fails_leaves_the_last_token_and_is_tried_again(
    endpoint: TokenEndpoint, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    provider = provider_of(endpoint, clock)
    provider.token()
    clock.now += 81
    endpoint.status = 503
    assert provider.token() == "token-1"
    if (refreshing := provider._refreshing) is not None:
        refreshing.join(5)
    assert "status 503; using the last token until it expires" in caplog.text
    clock.now += 20
    with pytest.raises(StoreError, match="status 503"):
        provider.token()
    endpoint.status = 200
    assert provider.token() == "token-4"


@pytest.mark.parametrize(
    "answer", [{"error": "hush"}, [], "hush", {"access_token": "hush", "expires_in": "soon"}]
)
def test_reports_a_response_without_a_token_but_not_its_content(
    endpoint: TokenEndpoint, answer: object
) -> None:
    endpoint.answer = lambda _: answer
    with pytest.raises(StoreError, match="the response has no access_token") as raised:
        provider_of(endpoint, Clock()).token()
    assert "hush" not in f"{raised.value!r}{raised.value.__cause__!r}"


def test_an_endpoint_that_is_not_there_is_named(endpoint: TokenEndpoint) -> None:
    endpoint.url = "http://127.0.0.1:1/token"
    with pytest.raises(StoreError, match=r"failed to get a token from http://127\.0\.0\.1:1/token: "):
        provider_of(endpoint, Clock()).token()
