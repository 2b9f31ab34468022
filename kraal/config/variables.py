r"""Variables in configs: `${provider:[path:]key}`. Pure.

A value may contain several variables. Variables do not nest and have no defaults. Variables with an unknown provider or
an unknown key remain unchanged.
Source: ConfigTransformer.DEFAULT_PATTERN, AbstractHerder.reverseTransform (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kraal.core.ids import Config
from kraal.core.secrets import MIN_SUBSTRING_LENGTH, can_hide, is_secret_name


@dataclass(frozen=True, slots=True, order=True)
class Variable:
    """A variable; `path` is empty if the variable has no path."""

    provider: str
    path: str
    key: str

    @staticmethod
    def of(content: str) -> Variable | None:
        """Parse the text between the braces; return None if it has no colon and so is not a variable."""
        match content.split(":", 2):
            case [provider, key]:
                return Variable(provider, "", key)
            case [provider, path, key]:
                return Variable(provider, path, key)
            case _:
                return None


def _scan_variables(text: str) -> Iterator[tuple[int, int, Variable]]:
    """Yield the start and end of each variable, and the variable itself, from left to right.

    Reads each character once. A regular expression would scan from each `${` to the end of the text, so a request with
    a few kilobytes of `${` would block the worker.
    """
    end = 0
    while (begin := text.find("${", end)) >= 0:
        closing = text.find("}", begin)
        if closing < 0:
            return
        end = closing + 1
        variable = Variable.of(text[begin + 2 : closing])
        if variable is not None:
            yield begin, end, variable


def has_variable(text: str | None) -> bool:
    """Return whether a text contains a variable of any provider."""
    return text is not None and any(_scan_variables(text))


def is_only_variables(text: str) -> bool:
    """Return whether a text consists only of variables and spaces."""
    variables = find_variables({"": text})
    return not (substitute(text, dict.fromkeys(variables, "")) or "").strip()


def find_variables(config: Config) -> Iterator[Variable]:
    """Yield all variables in a config's values."""
    for text in config.values():
        if text is not None:
            yield from (variable for _, _, variable in _scan_variables(text))


def substitute(text: str | None, values: Mapping[Variable, str]) -> str | None:
    """Replace the variables of a text with their values; variables without a value remain."""
    if text is None:
        return None
    pieces: list[str] = []
    copied_end = 0
    for begin, end, variable in _scan_variables(text):
        pieces += [text[copied_end:begin], values.get(variable, text[begin:end])]
        copied_end = end
    return "".join([*pieces, text[copied_end:]])


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedConfig:
    """A config with values in place of variables. Must not be stored, returned or logged; `repr` omits the values."""

    raw: Config = field(repr=False)
    config: Config = field(repr=False)
    ttl_ms: int | None = None
    """The shortest TTL that a provider returned for a value; None for unlimited."""

    @staticmethod
    def of(raw: Config, values: Mapping[Variable, str], ttl_ms: int | None = None) -> ResolvedConfig:
        """Substitute the values of variables in a config."""
        config = {key: substitute(text, values) for key, text in raw.items()}
        return ResolvedConfig(raw=raw, config=config, ttl_ms=ttl_ms)

    def restore_variables(self, config: Config) -> dict[str, str | None]:
        """Return a config derived from this one, such as a task's config, with variables in place of resolved values.

        A key whose original value contains a variable gets this original value, as in Connect. Unlike in Connect, a
        resolved value that was copied to another key or into a longer text is also replaced.
        """
        return {
            key: self.raw[key] if has_variable(self.raw.get(key)) else self._restore_value(key, value)
            for key, value in config.items()
        }

    def _restore_value(self, key: str, value: str | None) -> str | None:
        if not value:
            return value
        for text, raw in self._replaceable_values():
            if value == text and is_secret_name(key):
                return raw
            if len(text) >= MIN_SUBSTRING_LENGTH:
                value = value.replace(text, raw)
        return value

    def _replaceable_values(self) -> list[tuple[str, str]]:
        """Return the resolved values that can be recognized, longest first, with their original texts."""
        texts = {
            value: text
            for key, text in self.raw.items()
            if text is not None
            and (value := self.config[key]) is not None
            and value != text
            and can_hide(value)
        }
        return sorted(texts.items(), key=lambda pair: (-len(pair[0]), pair[0]))
