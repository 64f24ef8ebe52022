"""How well a reader finds code from file names.

    python benchmarks/navigation/navigation.py passages --seed 1 --out DIR   # passages of code without file names
    python benchmarks/navigation/navigation.py score                        # scores of answered rounds

One reader receives `passages.txt` alone and turns some of its passages into questions such as "Where would I change the
formula that …?", without the identifiers of the code. Another reader, who has not seen the code, receives the questions
and the output of `git ls-files`, and names one file for each. `rounds/N.toml` keeps question, file and answer.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROUNDS = Path(__file__).parent / "rounds"
PACKAGES = {"plb": 34, "cluster": 16, "workloads": 10}
"""Shares of the packages: passages of 60."""
SHORTEST, LONGEST = 8, 60
"""Lines of a passage."""


def passages(package: str) -> Iterator[tuple[str, str]]:
    """Yield the top-level functions and classes with a docstring, each with the path of its file."""
    for path in sorted((ROOT / package).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for one in ast.parse(text).body:
            if not isinstance(one, ast.FunctionDef | ast.ClassDef) or not ast.get_docstring(one):
                continue
            lines = text.splitlines()[one.lineno - 1 : one.end_lineno]
            if len(lines) >= SHORTEST:
                yield path.relative_to(ROOT).as_posix(), "\n".join(lines[:LONGEST])


def write_passages(seed: int, number: int, out: Path) -> None:
    """Write a seeded sample of about `number` numbered passages, and a key from numbers to files."""
    generator = random.Random(seed)
    counts = {package: count * number // 60 for package, count in PACKAGES.items()}
    chosen = [one for package, count in counts.items() for one in generator.sample(list(passages(package)), count)]
    generator.shuffle(chosen)
    out.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(f"=== passage {number}\n{code}" for number, (_, code) in enumerate(chosen, 1))
    (out / "passages.txt").write_text(text + "\n", encoding="utf-8")
    key = {str(number): path for number, (path, _) in enumerate(chosen, 1)}
    (out / "key.json").write_text(json.dumps(key, indent=1) + "\n", encoding="utf-8")


def print_scores() -> None:
    """Print the number of right answers of each round, and the questions with wrong answers."""
    for path in sorted(ROUNDS.glob("*.toml")):
        questions = tomllib.loads(path.read_text(encoding="utf-8"))["question"]
        wrong = [one for one in questions if one["answer"] not in (one["file"], *one.get("also", ()))]
        print(f"{path.stem}: {len(questions) - len(wrong)} of {len(questions)} right")
        for one in wrong:
            print(f"  {one['text']}\n    in {one['file']}, answered {one['answer']}")


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    sample = commands.add_parser("passages", help="write passages of code without names of files")
    sample.add_argument("--seed", type=int, required=True)
    sample.add_argument("--number", type=int, default=60, help="number of passages (default: 60)")
    sample.add_argument("--out", type=Path, required=True)
    commands.add_parser("score", help="print the number of right answers of each round")
    arguments = parser.parse_args()
    if arguments.command == "passages":
        write_passages(arguments.seed, arguments.number, arguments.out)
    else:
        print_scores()


if __name__ == "__main__":
    main()
