"""The scorecard of the claims of the five papers: docs/scorecard.md, and its counts in the README."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from docs.tables.markdown import figures, interval, table


class Verdict(StrEnum):
    """What became of a claim."""

    REPRODUCED = "reproduced"
    PARTLY = "partly"
    REVERSED = "reversed"
    NOT_TRIED = "not tried"


class Claim(NamedTuple):
    """A claim of a paper that can be checked."""

    place: str
    """Paper, and section or figure."""
    claim: str
    reported: str
    """Figure of the paper; "" without one."""
    found: str
    """Figure here with its interval, or a link to the table that has it."""
    repeats: str
    """Repeats or instances behind the figure."""
    verdict: Verdict
    cause: str
    """Cause of a difference, in a clause; "" if it is not known or there is none."""


def verdict_on(ratio: Mapping[str, float], reported: float) -> Verdict:
    """Return the verdict on a ratio that the paper has above 1: its interval is above, around or below 1."""
    if ratio["high"] < 1.0:
        return Verdict.REVERSED
    return Verdict.REPRODUCED if ratio["low"] > 1.0 and ratio["high"] >= reported else Verdict.PARTLY


def of_figure_8() -> list[Claim]:
    """Return the claims on the violations of annealing, [1] section 8.2."""
    data = figures("annealing")
    ratios, repeats = data["ratios_avoidable"], str(data["run"]["repeats"])

    def claim(words: str, pair: str, cause: str) -> Claim:
        reported = data["paper"][pair]
        verdict = verdict_on(ratios[pair], float(reported))
        return Claim("[1] 8.2", words, reported, interval(ratios[pair]), repeats, verdict, cause)

    better = data["counts_avoidable"]["modified better (tied) against original"]
    improved = data["counts_avoidable"]["oracle better than original"]
    is_better = better.split()[0] == better.split()[-1]
    return [
        claim("The original energy has more violations than the modified one.", "original / modified", TENANTS),
        Claim(
            "[1] 8.2",
            "The modified energy is better (tied) in nearly all settings.",
            data["paper"]["modified better (tied) against original"],
            better,
            repeats,
            Verdict.REPRODUCED if is_better else Verdict.PARTLY,
            "",
        ),
        claim(
            "No larger initial demand replaces the modified energy.",
            "best initial demand / modified",
            "the 99th percentile leaves tenants waiting",
        ),
        claim(
            "Nor does an oracle.",
            "original with oracle / modified",
            "the oracle moves tenants before a node runs short; [1] does not say how its violations count",
        ),
        Claim(
            "[1] 8.2",
            "An oracle rarely helps the original energy.",
            data["paper"]["oracle better than original"],
            improved,
            repeats,
            Verdict.REVERSED if improved.split()[0] == improved.split()[-1] else Verdict.PARTLY,
            "it moves tenants before a node runs short",
        ),
    ]


TENANTS = "the paper's tenants are not public; some synthetic ones fill a node alone"
REST = (
    Claim(
        "[1] 8.2, footnote 3",
        "Of the weights 0.1 to 1 of the expected failovers, 0.1 is best.",
        "",
        "[beyond the paper](studies.md#beyond-the-paper)",
        "2",
        Verdict.REVERSED,
        "not known",
    ),
    Claim(
        "[1] figure 7",
        "Compressed traces give the probabilities of full traces.",
        "almost exact",
        "[figure 7](studies.md#figure-7-here)",
        "1",
        Verdict.PARTLY,
        "on Bitbrains a node adds up the models as if all were busy at once",
    ),
    Claim(
        "[1] figure 9, 80 vCores",
        "PrV-WorstFit is at least as good as the best policy without probabilities.",
        "50 of 52",
        "[figure 9](studies.md#figure-9-here)",
        "1",
        Verdict.REPRODUCED,
        "",
    ),
    Claim(
        "[1] figure 9, 128 vCores",
        "So it is on larger nodes.",
        "16 of 16",
        "[figure 9](studies.md#figure-9-here)",
        "1",
        Verdict.PARTLY,
        "one repeat and few violations",
    ),
    Claim(
        "[1] 8.4",
        "On a real cluster the original energy has more violations.",
        "2.93",
        "",
        "",
        Verdict.NOT_TRIED,
        "there is no such cluster",
    ),
    Claim(
        "[1] 8.5",
        "A demand model takes little memory.",
        "66 bytes",
        "[overheads](studies.md#overheads-here)",
        "",
        Verdict.REPRODUCED,
        "",
    ),
    Claim(
        "[2] figures 8 and 9",
        "At percentiles of 0.1 and 0.05, GPA overloads machines about that often.",
        "near 0.1, 0.05",
        "[results](gaussian.md#results-here)",
        "50 instances",
        Verdict.REPRODUCED,
        "",
    ),
    Claim(
        "[2] figure 8",
        "So it does at 0.001.",
        "0.0016",
        "[results](gaussian.md#results-here)",
        "50 instances",
        Verdict.PARTLY,
        "totals of these traces are further from Gaussian",
    ),
    Claim(
        "[2] figure 8",
        "Cantelli's inequality (b = 1) hardly ever overloads a machine.",
        "0.0003",
        "[results](gaussian.md#results-here)",
        "50 instances",
        Verdict.PARTLY,
        "not on Bitbrains, whose totals are far from Gaussian",
    ),
    Claim(
        "[2] table 1",
        "Totals of many tasks are nearly Gaussian.",
        "0.09 rejected of 500",
        "[results](gaussian.md#results-here)",
        "50 instances",
        Verdict.PARTLY,
        "totals of these traces are further from Gaussian",
    ),
    Claim(
        "[3] figures 3 to 5",
        "Spreading needs fewer nodes than First Fit.",
        "4.1 against 12.2 %",
        "[results](provisioning.md#results-here)",
        "1 instance",
        Verdict.REPRODUCED,
        "",
    ),
    Claim(
        "[3] figures 6 and 7",
        "So it does where demand varies.",
        "",
        "[results](provisioning.md#results-here)",
        "3 instances",
        Verdict.REPRODUCED,
        "",
    ),
    Claim(
        "[4]",
        "The learned network beats heuristics such as Tetris.",
        "",
        "[results](learning.md#results-here)",
        "20 sequences, 1 training",
        Verdict.REVERSED,
        "[4] prints neither figures nor all settings; another network does",
    ),
    Claim(
        "[5] figure 10",
        "N-sigma violates less often than the sum of percentiles.",
        "",
        "[figures](prediction.md#the-papers-figures)",
        "4 weeks; Google's sample",
        Verdict.PARTLY,
        "synthetic tenants rarely peak together; Google's tasks do",
    ),
    Claim(
        "[5] figure 10",
        "The maximum of both violates least.",
        "",
        "[figures](prediction.md#the-papers-figures)",
        "4 weeks; Google's sample",
        Verdict.REPRODUCED,
        "",
    ),
    Claim(
        "[5] figure 13",
        "The maximum saves more than a fixed share at equal risk, in production.",
        "16 against 10 %",
        "",
        "",
        Verdict.NOT_TRIED,
        "Google's cluster",
    ),
)
"""Claims whose figures are on the pages that the links name."""


def claims() -> list[Claim]:
    """Return all claims."""
    return [*of_figure_8(), *REST]


def scorecard() -> str:
    """Return the table of all claims."""
    head = ("where", "claim", "reported", "here", "repeats", "verdict", "cause of the difference")
    return table(head, [[*map(str, claim)] for claim in claims()])


def counts() -> str:
    """Return how many claims have each verdict."""
    of_verdict: Any = Counter(claim.verdict for claim in claims())
    words = ", ".join(f"{of_verdict[verdict]} {verdict}" for verdict in Verdict)
    return f"Of {sum(of_verdict.values())} claims of the five papers: {words} ([scorecard](docs/scorecard.md))."
