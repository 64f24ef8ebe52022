"""The scorecard of the claims of the five papers: docs/scorecard.md, and its counts in the README."""

from __future__ import annotations

from collections import Counter
from typing import Any

from docs.tables import compression, gaussian, peaks, provisioning
from docs.tables.claims import Claim, Verdict, verdict_on
from docs.tables.markdown import figures, interval, table


def of_figure_8() -> list[Claim]:
    """Return the claims of [1] section 8.2 on annealing.

    The verdicts are on all violations, as the paper counts; a claim that holds among avoidable ones alone holds partly.
    """
    data = figures("annealing")
    repeats = str(data["run"]["repeats"])

    def claim(words: str, pair: str, cause: str) -> Claim:
        reported, of_all, avoidable = data["paper"][pair], data["ratios"][pair], data["ratios_avoidable"][pair]
        found = f"{interval(of_all)}; avoidable {interval(avoidable)}"
        verdict = verdict_on(of_all, float(reported))
        if verdict is Verdict.NOT_REPRODUCED and avoidable["low"] > 1.0:
            verdict = Verdict.PARTLY
        return Claim("[1] 8.2", words, reported, found, repeats, verdict, cause)

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
            "the 99th percentile leaves tenants waiting, so that the clusters are not equally full; not in region2; "
            "[1] also has the 90th and the 95th",
        ),
        claim(
            "The original energy with an oracle has more violations than the modified one.",
            "original with oracle / modified",
            f"[1] does not say by which loads its violations count; by reported loads {by_reports()}",
        ),
        count(
            "An oracle improves the original energy slightly, in fewer than half of the settings.",
            "oracle better than original",
            Verdict.NOT_REPRODUCED,
            "not known; [1] does not say by which loads its violations count",
        ),
    ]


def by_reports() -> str:
    """Return the ratio of the violations of the original energy with an oracle, by reported loads, and its repeats."""
    data = figures("forms")
    found = interval(data["ratios"]["original+oracle / modified, by reported loads"])
    return f"{found} in {data['run']['repeats']} repeats of the [forms](studies.md#forms-of-the-energies)"


def of_weights() -> Claim:
    """Return the claim on the weight of the expected failovers; the study has one other weight."""
    data = figures("forms")
    ratio = data["ratios"]["modified, w_failovers = 1 / modified"]
    above = verdict_on(ratio, float("inf"))
    found = f"1 against 0.1: {interval(ratio)}"
    words = "Of the weights 0.1 to 1 of the expected failovers, 0.1 is best."
    repeats = str(data["run"]["repeats"])
    return Claim(
        "[1] 8.2, footnote 3",
        words,
        "",
        found,
        repeats,
        above,
        "only these two weights were tried, in too few repeats for a small difference",
    )


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
                verdict = Verdict.PARTLY  # what does not hold on Bitbrains is at most partly reproduced
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


def of_overheads() -> list[Claim]:
    """Return the claims of [1] section 8.5 on bytes and on the ratio of two times; both are of one measurement."""
    data = figures("overhead")

    def claim(words: str, labels: tuple[str, ...], verdict: Verdict, cause: str) -> Claim:
        reported, found = (" and ".join(data[name][label] for label in labels) for name in ("paper", "counts"))
        return Claim("[1] 8.5", words, reported, found, "1 measurement", verdict, cause)

    return [
        claim("A demand model takes little memory.", ("memory of a demand model",), Verdict.REPRODUCED, ""),
        claim(
            "A thousand configurations take twice as long to score with the modified energy as with the original.",
            ("1,000 configurations, original energy", "1,000 configurations, modified energy"),
            Verdict.NOT_REPRODUCED,
            "lower bounds reject most configurations without the sums of the repetitions; another program and machine",
        ),
    ]


TENANTS = "the paper's tenants are not public; here some replicas fill a node alone; no difference on Bitbrains"
ON_BITBRAINS = "on synthetic tenants; worse on [Bitbrains](studies.md#bitbrains) in one repeat, tested by peaks"
"""Why a claim on placement that holds on synthetic tenants holds partly."""
NOT_TRIED = (
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
)
"""Claims of [1] without figures here."""
OF_PROVISIONING_AND_LEARNING = (
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
        Verdict.PARTLY,
        "better than Tetris by peaks, not by present usage; [4] prints no figures and does not say which it compares",
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
    of_placement = [*of_figure_8(), of_weights(), *of_figure_9(), *compression.claims(), *NOT_TRIED, *of_overheads()]
    return [
        *of_placement,
        *gaussian.claims(),
        *provisioning.claims(),
        *OF_PROVISIONING_AND_LEARNING,
        *peaks.claims(),
        IN_PRODUCTION,
    ]


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
