#!/usr/bin/env python3
"""Results of run.sh to the table that README has.

    table.py [RESULTS.json] [--into README.md]

Prints the table of results/h200.json.  --into replaces what stands between the lines <!-- bench --> and
<!-- /bench --> of a file.
"""

import argparse
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = {"eager": "eager", "compile": "compile", "max_autotune": "max-autotune"}
HEAD = ["program and size", "replay", "in cache", "call", "copy", "x copy", "TB/s", *PEERS.values(), "x faster",
        "checked"]


def median(timing):
    return timing["median"] if timing else None


def number(x):
    return "" if x is None else f"{x:.2f}" if x < 100 else f"{x:.0f}"


def peer_us(row, peer):
    return median(row["peers"].get(peer, {}).get("replay_us"))


def peer_text(row, peer):
    """The replay, and the call behind it."""
    measured = row["peers"].get(peer, {})
    if "replay_us" not in measured:
        return measured.get("why", "").split(":")[0]
    return f"{number(median(measured['replay_us']))} ({number(median(measured['call_us']))})"


def faster(row):
    """How many times as long the fastest peer takes, replayed as the row is."""
    readings = [us for us in (peer_us(row, peer) for peer in PEERS) if us]
    return f"{min(readings) / median(row['quern']['replay_us']):.2f}" if readings else ""


def cells(row):
    q = row["quern"]
    checked = {True: row["check"].get("by", ""), False: "**WRONG**", None: "no"}[row["check"]["ok"]]
    if not q:
        return [row["name"], "failed", *[""] * 5, *[peer_text(row, peer) for peer in PEERS], "", checked]
    return [row["name"], number(median(q["replay_us"])), number(median(q["warm_us"])), number(median(q["call_us"])),
            number(q["copy_us"]), number(q["ratio_to_copy"]), number(q["tb_per_s"]),
            *[peer_text(row, peer) for peer in PEERS], faster(row), checked]


def launches(results):
    """The empty kernel's figures, the median over rows."""
    rows = [row["quern"] for row in results["rows"] if row["quern"] and row["quern"]["empty_launch_us"] is not None]
    if not rows:
        return ""
    middle = {key: sorted(q[key] for q in rows)[len(rows) // 2] for key in ("empty_launch_us", "empty_call_us")}
    return f" An empty kernel: {number(middle['empty_launch_us'])} a replay, {number(middle['empty_call_us'])} a call."


def markdown(results):
    commit = results["commit"][:12] if results["commit"] else "an unknown commit"
    lines = [f"On {results['gpu']}, driver {results['driver']}, NVRTC {results['nvrtc']}, PyTorch {results['torch']}, "
             f"quern at {commit}. Microseconds, medians; a peer's call in "
             f"brackets; *x copy*: over a device copy of the same bytes; *x faster*: than the fastest peer, both "
             f"replayed.{launches(results)}", "",
             "| " + " | ".join(HEAD) + " |", "|---|" + "--:|" * (len(HEAD) - 2) + "---|"]
    lines += ["| " + " | ".join(cells(row)) + " |" for row in results["rows"]]
    return "\n".join(lines) + "\n"


def replace(path, text):
    with open(path, encoding="utf-8") as file:
        before = file.read()
    begin, end = "<!-- bench -->\n", "<!-- /bench -->"
    if begin not in before or end not in before:
        sys.exit(f"{path} has no lines <!-- bench --> and <!-- /bench -->")
    head, rest = before.split(begin, 1)
    with open(path, "w", encoding="utf-8") as file:
        file.write(head + begin + text + end + rest.split(end, 1)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="?", default=os.path.join(HERE, "results", "h200.json"))
    parser.add_argument("--into", help="a file with lines <!-- bench --> and <!-- /bench -->")
    given = parser.parse_args()
    try:
        with open(given.results, encoding="utf-8") as file:
            text = markdown(json.load(file))
    except FileNotFoundError:
        sys.exit(f"there are no results: {given.results} is not there; tools/bench/run.sh makes it on a GPU")
    if given.into:
        replace(given.into, text)
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
