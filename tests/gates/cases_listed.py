#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cases_listed.py: the table of public cases in doc/testing.md names tests that exist, and all that have a case's name.

usage: cases_listed.py SOURCE_ROOT

Seen failing: with a misspelt test, a file that is not there, a test of tests/check that its list does not run, a case
that is missing, given twice or without a reason, a test named after a case that its row lacks, and a wrong count.
"""

import re
import sys
from pathlib import Path

# The last character of the cases of each block.
BLOCKS = {"S0": "123456789", "S1": "0123456", "S2": "0123456789", "S3": "0123456", "S4": "0123456789AB",
          "S5": "0123456789ABCDEF", "S6": "0123456789", "S7": "01234567", "S8": "012345", "S9": "0123456789",
          "SA": "0123456789", "SB": "012345", "SC": "012345", "SD": "0123"}
CASES = [block + last for block, lasts in BLOCKS.items() for last in lasts]
ROW = re.compile(r"^\| (S[0-9A-D][0-9A-F]) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.M)
NAMED = re.compile(r"^((?:S[0-9A-D][0-9A-F]_)+)[a-z]")
WHERE = ["tests", "tools"]


def definitions(path, text):
    """Names of the tests in a file, and of those that a list runs."""
    if path.suffix == ".py":
        names = set(re.findall(r"^ *def (\w+)\(", text, re.M))
        return names, names
    if path.suffix == ".cpp":
        names = set(re.findall(r"^TRT_CASE\((\w+)\)", text, re.M))
        return names, names
    return set(re.findall(r"^static void (\w+)\(void \*\*\w+\)", text, re.M)), set(
        re.findall(r"cmocka_unit_test\w*\((\w+)", text))


def main():
    root = Path(sys.argv[1]).resolve()
    text = (root / "doc" / "testing.md").read_text()
    rows, faults, files = ROW.findall(text), [], {}
    for folder in WHERE:
        for path in (root / folder).rglob("*"):
            if path.suffix in (".c", ".cpp", ".cu", ".py", ".sh"):
                files.setdefault(path.stem, []).append(path)
    listed = [row[0] for row in rows]
    faults += [f"{case}: {listed.count(case)} rows" for case in CASES if listed.count(case) != 1]
    faults += [f"{case}: no such case" for case in listed if case not in CASES]
    of_case = {}
    for case, _, tests, runs_on in rows:
        names = re.findall(r"`([^`]+)`", tests)
        of_case[case] = set(names)
        if not names and (tests != "-" or not re.match("cannot apply: |not covered: ", runs_on)):
            faults.append(f"{case}: neither a test nor a reason why not")
        for name in names:
            stem, _, function = name.partition(":")
            paths = files.get(stem, [])
            if len(paths) != 1:
                faults.append(f"{case}: {len(paths)} files called {stem}")
                continue
            defined, run = definitions(paths[0], paths[0].read_text())
            if function and function not in defined:
                faults.append(f"{case}: {paths[0].relative_to(root)} has no test {function}")
            elif function and function not in run:
                faults.append(f"{case}: {function} is not in the list of {paths[0].relative_to(root)}")
    for stem, (path, *_) in sorted(files.items()):
        if path.suffix == ".py" or path.relative_to(root).parts[0] != "tests":
            continue
        for name in sorted(definitions(path, path.read_text())[0]):
            found = NAMED.match(name)
            for case in found.group(1).rstrip("_").split("_") if found else []:
                if f"{stem}:{name}" not in of_case.get(case, ()):
                    faults.append(f"{stem}:{name} is not in the row of {case}")
    covered = sum(bool(names) for names in of_case.values())
    apply = len(rows) - sum(runs_on.startswith("cannot apply") and tests == "-" for _, _, tests, runs_on in rows)
    count = f"{len(rows)} cases, {apply} applicable, {covered} covered."
    if f"\n{count}\n" not in text:
        faults.append(f"the count below the table should be: {count}")
    print("\n".join(faults) if faults else count)
    return 1 if faults or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
