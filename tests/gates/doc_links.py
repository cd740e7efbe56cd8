#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""doc_links.py: links in the Markdown files lead somewhere: a local path is there, and so is the heading of an anchor.
Links to other sites are not followed.

usage: doc_links.py SOURCE_ROOT

Seen failing: with a link to a file that is not there, one to an anchor that no heading has, and one that leaves the
tree.
"""

import re
import sys
from pathlib import Path
from urllib.parse import unquote

LINK = re.compile(r"(?<!\!)\[[^\]\n]*(?:\n[^\]\n]*)?\]\(([^()\s]+(?:\([^()\s]*\)[^()\s]*)?)\)")
FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
CODE = re.compile(r"(`+)(?:(?!\1).)+?\1", re.S)


def without_code(text):
    """Code replaced by blanks of its length, so that lines keep their numbers."""
    blank = lambda match: re.sub(r"[^\n]", " ", match.group())
    return CODE.sub(blank, FENCE.sub(blank, text))


def anchors(text):
    """The names that GitHub gives headings: lower case, blanks as '-', other punctuation dropped, -1, -2 on repeats."""
    names, seen = set(), {}
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", FENCE.sub("", text), re.M):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = seen.get(name, 0)
        seen[name] = count + 1
        names.add(f"{name}-{count}" if count else name)
    return names | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def main():
    root = Path(sys.argv[1]).resolve()
    pages = [page for page in sorted(root.rglob("*.md"))
             if not {"build", ".git"} & set(page.relative_to(root).parts[:-1])]
    faults, links = [], 0
    for page in pages:
        text = without_code(page.read_text(encoding="utf-8"))
        for match in LINK.finditer(text):
            link = match.group(1)
            if re.match(r"[a-z]+:", link):
                continue
            links += 1
            where = f"{page.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1}"
            path, _, anchor = link.partition("#")
            target = (page.parent / unquote(path)).resolve() if path else page
            if not target.is_relative_to(root):
                faults.append(f"{where}: {link} leaves the tree")
            elif not target.exists():
                faults.append(f"{where}: {link} is not there")
            elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
                faults.append(f"{where}: {link}: no heading has that name")
    print("\n".join(faults) if faults else f"{links} links in {len(pages)} pages lead somewhere")
    return 1 if faults or not links else 0


if __name__ == "__main__":
    sys.exit(main())
