#!/usr/bin/env python3
"""command_line.py build/bin/attune OUT: `attune --help` and the help of each verb as a page.

A group of options that several verbs have is written once, after the verbs.
"""
import re
import subprocess
import sys

from pages import escaped, note, wrapped, write

INTRODUCTION = """# Command line

`attune VERB --help` prints what this page says. Verbs that take a variant share groups of options: the groups are
described [below](#groups-of-options).
"""


def printed(attune, *arguments):
    return subprocess.run([attune, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def sections(text):
    """(summary, usage, [(group, [(option, help)])], examples and exit codes) of a help text."""
    lines = text.rstrip("\n").split("\n")
    summary, usage, groups, tail = lines[0], lines[1].removeprefix("Usage: "), [], []
    for line in lines[2:]:
        group = re.match(r"\[Option Group: (.*)\]$", line)
        head = re.match(r"(Positionals|Options|Subcommands):$", line)
        if group or head:
            groups.append((group.group(1) if group else head.group(1), []))
        elif re.match(r"(Examples?|Exit codes):", line) or (tail and line):
            tail.append(line)
        elif line.strip() in ("", "Options:"):
            continue
        elif re.match(r" {2,4}\S", line):
            option, _, help_text = re.sub(r" {2,}", "\0", line.strip(), count=1).partition("\0")
            groups[-1][1].append([option, help_text])
        elif not groups[-1][1][-1][1]:
            groups[-1][1][-1][1] = line.strip()
        else:
            groups[-1][1][-1][1] += " " + line.strip()
    return summary, usage, [(name, [tuple(each) for each in options]) for name, options in groups], tail


def option_list(options):
    text = ""
    for option, help_text in options:
        text += wrapped(f"- `{option}`" + (f": {escaped(help_text)}" if help_text else ""), "    ") + "\n"
    return text + "\n"


def slug(title):
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def verb_text(name, parts, shared, level="##"):
    summary, usage, groups, tail = parts
    text = f"{level} {name}\n\n{wrapped(escaped(summary[0].upper() + summary[1:]))}.\n\n```text\n{usage}\n```\n\n"
    links = []
    for group, options in groups:
        if group == "Subcommands":
            continue
        if (group, tuple(options)) in shared:
            links.append(f"[{group.split(';')[0]}](#{slug(shared[group, tuple(options)])})")
            continue
        text += f"**{group}**\n\n" + option_list([each for each in options if each[0] != "-h,--help"])
    if links:
        text += wrapped("Further options: " + ", ".join(links) + ".") + "\n\n"
    if tail:
        text += "```text\n" + "\n".join(tail) + "\n```\n\n"
    return text


def main():
    attune, target = sys.argv[1:]
    summary, usage, groups, tail = sections(printed(attune, "--help"))
    verbs = dict(groups)["Subcommands"]
    helps = {}
    for verb, _ in verbs:
        helps[verb] = sections(printed(attune, verb, "--help"))
        for inner, _ in dict(helps[verb][2]).get("Subcommands", ()):
            helps[f"{verb} {inner}"] = sections(printed(attune, verb, inner, "--help"))
    count, first = {}, {}
    for verb, parts in helps.items():
        for group, options in parts[2]:
            if group not in ("Positionals", "Options", "Subcommands"):
                count[group, tuple(options)] = count.get((group, tuple(options)), 0) + 1
                first.setdefault((group, tuple(options)), verb)
    shared, titles = {}, {}
    for key, times in count.items():
        if times > 1:
            title = key[0].split(";")[0]
            titles[title] = titles.get(title, 0) + 1
            shared[key] = title if titles[title] == 1 else f"{title} of {first[key]}"
    text = note("`attune --help`") + INTRODUCTION + "\n| verb | |\n|---|---|\n"
    text += "".join(f"| [`attune {verb}`](#{slug('attune ' + verb)}) | {help_text} |\n" for verb, help_text in verbs)
    text += "\n```text\n" + "\n".join(tail) + "\n```\n\n"
    for verb, parts in helps.items():
        text += verb_text(f"attune {verb}", parts, shared, "###" if " " in verb else "##")
    text += "## Groups of options\n\n"
    for (group, options), title in shared.items():
        remark = group.partition("; ")[2]
        text += f"### {title}\n\n" + (f"{remark[0].upper() + remark[1:]}.\n\n" if remark else "") + option_list(options)
    text += "## Environment\n\n```text\n" + printed(attune, "help", "environment").rstrip("\n") + "\n```\n"
    write(target, text)


if __name__ == "__main__":
    main()
