"""The scorecard of the claims of the five papers: docs/scorecard.md, and its counts in the README."""

from __future__ import annotations

from collections import Counter
from typing import Any

from docs.tables import gaussian, peaks
from docs.tables.claims import Claim, Verdict, verdict_on
from docs.tables.markdown import figures, interval, table


def of_figure_8() -> list[Claim]:
    """Return the claims of [1] section 8.2 on annealing; the verdicts are on all violations, as the paper counts."""
    data = figures("annealing")
    repeats = str(data["run"]["repeats"])

    def claim(words: str, pair: str, cause: str) -> Claim:
        reported, of_all, avoidable = data["paper"][pair], data["ratios"][pair], data["ratios_avoidable"][pair]
        found = f"{interval(of_all)}; avoidable {interval(avoidable)}"
        return Claim("[1] 8.2", words, reported, found, repeats, verdict_on(of_all, float(reported)), cause)

    def count(words: str, label: str, verdict: Verdict, cause: str) -> Claim:
        return Claim("[1] 8.2", words, data["paper"][label], data["counts"][label], repeats, verdict, cause)

    return [
        claim("The original energy has more violations than the modified one.", "original / modified", TENANTS),
        count(
            "The modified energy is better (tied) in nearly all settings.",
            "modified better (tied) against original",
            Verdict.PARTLY,
            "on synthetic tenants; not on [Bitbrains](studies.md#bitbrains)",
        ),
        claim(
            "No larger initial demand has as few violations as the modified energy.",
            "best initial demand / modified",
            "the 99th percentile leaves tenants waiting, so that the clusters are not equally full; not in region2",
        ),
        claim(
            "The original energy with an oracle has more violations than the modified one.",
            "original with oracle / modified",
            "not known; [1] does not say by which loads its violations count",
        ),
        count(
            "An oracle improves the original energy slightly, in fewer than half of the settings.",
            "oracle better than original",
            Verdict.NOT_REPRODUCED,
            "not known; [1] does not say by which loads its violations count",
        ),
    ]


def of_figure_9() -> list[Claim]:
    """Return the claims of [1] section 8.3; the verdicts are on the ratio of all violations, and on Bitbrains."""
    data = figures("policies")
    names = {"PrV-WorstFit": "prv_worst_fit, timeline", "PrV-BestFit": "prv_best_fit, timeline"}
    rows = []
    for vcores in (80, 128):
        for words, arm in names.items():
            pair = f"{vcores} vCores: best without probabilities / {arm}"
            label = f"{vcores} vCores: {arm} at least as good as best without probabilities"
            ratio, published = data["ratios"][pair], data["paper"]
            verdict = verdict_on(ratio, float(published[pair]))
            if verdict is Verdict.REPRODUCED:
                verdict = Verdict.PARTLY  # not on Bitbrains
            rows.append(
                Claim(
                    f"[1] figure 9, {vcores} vCores",
                    f"The best policy without probabilities has more violations than {words}.",
                    "; ".join(published[name] for name in (pair, label) if name in published),
                    f"{interval(ratio)}; avoidable {interval(data['ratios_avoidable'][pair])}; {data['counts'][label]}",
                    str(data["run"]["repeats"]),
                    verdict,
                    ON_BITBRAINS,
                )
            )
    return rows


TENANTS = "the paper's tenants are not public; here some replicas fill a node alone"
ON_BITBRAINS = (
    "on synthetic tenants; not on [Bitbrains](studies.md#bitbrains), in one repeat, where models overestimate"
)
WEIGHTS = Claim(
    "[1] 8.2, footnote 3",
    "Of the weights 0.1 to 1 of the expected failovers, 0.1 is best.",
    "",
    "[beyond the paper](studies.md#beyond-the-paper)",
    "2",
    Verdict.NOT_REPRODUCED,
    "two repeats in four settings",
)
REST_OF_PLACEMENT = (
    Claim(
        "[1] figure 7",
        "Compressed traces give the probabilities of full traces.",
        "almost exact",
        "[figure 7](studies.md#figure-7-here)",
        "1",
        Verdict.PARTLY,
        "not on Bitbrains: a node adds up the models as if all machines were busy at once",
    ),
    Claim(
        "[1] figure 9",
        "With an oracle, the best policy without probabilities has more violations than PrV-WorstFit.",
        "2.27; 49 of 52",
        "",
        "",
        Verdict.NOT_TRIED,
        "`plb study policies --oracle` takes hours",
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
)
"""Other claims of [1], whose figures are on the pages that the links name."""
OF_PROVISIONING_AND_LEARNING = (
    Claim(
        "[3] figure 4",
        "Spreading needs fewer nodes than First Fit.",
        "",
        "[results](provisioning.md#results-here)",
        "1 instance",
        Verdict.PARTLY,
        "not on threshold graphs of 10 % by the paper's rules",
    ),
    Claim(
        "[3] figures 6 and 7",
        "The nodes of each algorithm where demand varies.",
        "",
        "[results](provisioning.md#results-here)",
        "3 instances",
        Verdict.PARTLY,
        "not known; one algorithm differs in figure 7",
    ),
    Claim(
        "[4]",
        "A learned network is better than heuristics such as Tetris.",
        "",
        "[results](learning.md#results-here)",
        "20 sequences, 1 training",
        Verdict.NOT_REPRODUCED,
        "[4] prints neither figures nor all settings; another network is better",
    ),
)
"""Claims of [3] and [4], whose figures are on the pages that the links name."""
IN_PRODUCTION = Claim(
    "[5] figure 13",
    "In production the maximum saves more than `borg-default` at equal risk.",
    "above 16 against above 10 %",
    "",
    "",
    Verdict.NOT_TRIED,
    "Google's cluster",
)


def claims() -> list[Claim]:
    """Return all claims."""
    of_placement = [*of_figure_8(), WEIGHTS, *of_figure_9(), *REST_OF_PLACEMENT]
    return [*of_placement, *gaussian.claims(), *OF_PROVISIONING_AND_LEARNING, *peaks.claims(), IN_PRODUCTION]


def scorecard() -> str:
    """Return the table of all claims."""
    head = ("where", "claim", "reported", "here", "repeats", "verdict", "what may explain a difference")
    return table(head, [[*map(str, claim)] for claim in claims()])


def counts() -> str:
    """Return how many claims have each verdict."""
    of_verdict: Any = Counter(claim.verdict for claim in claims())
    words = ", ".join(f"{of_verdict[verdict]} {verdict}" for verdict in Verdict)
    return (
        f"Of {sum(of_verdict.values())} selected claims of the five papers: {words} ([scorecard](docs/scorecard.md))."
    )
