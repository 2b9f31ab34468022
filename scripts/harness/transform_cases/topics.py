"""Cases for topic transforms and predicates."""

from __future__ import annotations

from scripts.harness.transform_cases.building import Case, case, record, stage

ROUTES = (
    ("orders", "sales"),
    ("ord(.*)", "$1-x"),
    ("(o)(r)(d).*", "$3$2$1$0"),
    ("(?<first>.)(.*)", "${first}_$2"),
    ("o|or.*", "X"),
    ("(a)?orders", "[$1]"),
    ("orders", "a\\$b\\\\c"),
    ("orders", "$1"),
    ("orders", "$"),
    ("orders", "${nope}"),
    ("(o).*", "$12"),
    ("orders", "\\"),
    ("ORDERS", "x"),
    ("(?i)ORDERS", "x"),
    ("[a-z]++", "p"),
    ("\\p{Alpha}+", "alpha"),
    ("\\Qorders\\E", "q"),
    (".*", "all"),
    ("rder", "part"),
    ("(?:or)(d)(?=e)ers", "$1"),
    ("([^x&&[a-z]]*)", "$1"),
    ("", "empty"),
    ("(", "x"),
    ("orders", ""),
    ("(?<a>o)(?<b>r).*", "${b}${a}"),
    ("orders", "${a"),
    ("orders", "$x"),
    ("(.)\\1*.*", "$1"),
)
ROUTES_WITHOUT_INTERSECTIONS = tuple(
    (regex, replacement) for regex, replacement in ROUTES if "&&" not in regex
)
"""The routes whose regular expressions contain no intersection of character classes."""

TIMES = (
    ("yyyyMMdd", None),
    ("yyyy-MM-dd'T'HH", "${timestamp}/${topic}/${topic}"),
    ("yyyy", "fixed"),
    ("", None),
    ("HH:mm", "$1 ${timestamp"),
)


def make_route(regex: str, replacement: str) -> dict[str, str]:
    """Return a stage of RegexRouter."""
    return stage("RegexRouter", regex=regex, replacement=replacement)


DROP = {**stage("Filter"), "predicate": "p"}
KEEP = {**DROP, "negate": "true"}
RECORDS = [
    record(1),
    record(None),
    record(1, topic="other"),
    record(1, headers=[["trace", "1"]]),
    record(1, headers=[["Trace", None]]),
]

CASES: list[Case] = [
    *(
        case(f"route {regex} to {by}", make_route(regex, by), records=[record(1), record(1, topic="or")])
        for regex, by in ROUTES_WITHOUT_INTERSECTIONS
    ),
    *(
        case(
            f"route by time {pattern}",
            stage(
                "TimestampRouter",
                timestamp_format=pattern,
                **({} if topic_format is None else {"topic_format": topic_format}),
            ),
            records=[record(1), record(1, timestamp=-1), record(1, topic="a$b\\c")],
        )
        for pattern, topic_format in TIMES
    ),
    case("drop all", stage("Filter"), records=RECORDS),
    case("drop tombstones", DROP, records=RECORDS, p=stage("RecordIsTombstone")),
    case("keep tombstones", KEEP, records=RECORDS, p=stage("RecordIsTombstone")),
    case("drop by topic", DROP, records=RECORDS, p=stage("TopicNameMatches", pattern="ord.*")),
    case("drop by a part of the topic", DROP, records=RECORDS, p=stage("TopicNameMatches", pattern="ord")),
    case("keep by header", KEEP, records=RECORDS, p=stage("HasHeaderKey", name="trace")),
    case("a predicate without its key", DROP, records=[], p=stage("HasHeaderKey")),
    case("a predicate with an empty key", DROP, records=[], p=stage("HasHeaderKey", name="")),
    case("a predicate with a broken pattern", DROP, records=[], p=stage("TopicNameMatches", pattern="(")),
    case("a predicate with an empty pattern", DROP, records=[], p=stage("TopicNameMatches", pattern="")),
    case("a router without its keys", stage("RegexRouter", regex="a"), records=[]),
]
