"""What mkdocs.yml asks of mkdocs beyond its own: folders in the navigation, and pages of the source files that pages link to.

A link that leads out of docs/ (`../../include/attune/Kernel.h`) goes to a page of the site that shows the file, or lists the folder, so
that the site is whole without the repository. These pages are not searched.
"""
import os
import re

from mkdocs.structure.files import File, InclusionLevel

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DOCS = os.path.join(ROOT, "docs")
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
# Colours take most of the time of a page.
HIGHLIGHTED = ("include/", "examples/")
LANGUAGES = {".cpp": "cpp", ".h": "cpp", ".def": "cpp", ".c": "c", ".py": "python"}



def pages_of(folder):
    """The pages of docs/FOLDER, index.md first; a folder within it last, under its name."""
    path = os.path.join(DOCS, folder)
    if not os.path.isdir(path):
        return []
    names = sorted(os.listdir(path))
    pages = [folder + name for name in names if name.endswith(".md")]
    pages.sort(key=lambda page: not page.endswith("/index.md"))
    return pages + [{name: pages_of(f"{folder}{name}/")} for name in names if os.path.isdir(os.path.join(path, name))]


def expanded(entry):
    if isinstance(entry, list):
        return [each for each in map(expanded, entry) if each]
    if isinstance(entry, dict):
        return {title: pages for title, pages in ((title, expanded(value)) for title, value in entry.items()) if pages}
    return pages_of(entry) if entry.endswith("/") else entry


def source_of(page, link):
    """The file or folder of the repository, outside docs/, to which `link` on `page` leads; None for other links."""
    if "://" in link or link.startswith(("mailto:", "/")):
        return None
    path = os.path.normpath(os.path.join("docs", os.path.dirname(page), link))
    if path.startswith("docs" + os.sep) or path.startswith("..") or not os.path.exists(os.path.join(ROOT, path)):
        return None
    return path


def source_page(path):
    full = os.path.join(ROOT, path)
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {path}\n\n"
    if os.path.isdir(full):
        return head + "".join(f"- `{name}`\n" for name in sorted(os.listdir(full)) if not name.startswith((".", "__")))
    with open(full, errors="replace") as file:
        text = file.read().rstrip("\n")
    language = LANGUAGES.get(os.path.splitext(path)[1]) if path.startswith(HIGHLIGHTED) else None
    return head + f"````{language or 'text'}\n{text}\n````\n"


def on_config(config):
    config.nav = expanded(config.nav)
    return config


def on_files(files, config):
    sources = set()
    for file in list(files):
        if file.is_documentation_page():
            with open(file.abs_src_path) as text:
                sources |= {source_of(file.src_uri, link[1]) for link in LINK.findall(text.read())}
    for path in sorted(sources - {None}):
        files.append(File.generated(config, f"source/{path}.md", content=source_page(path), inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def on_page_markdown(markdown, page, config, files):
    def replaced(match):
        path = source_of(page.file.src_uri, match.group(2))
        if path is None:
            return match.group()
        target = os.path.relpath(f"source/{path}.md", os.path.dirname(page.file.src_uri) or ".")
        return f"{match.group(1)}{target}{match.group(4)}"

    return markdown if page.file.src_uri.startswith("source/") else LINK.sub(replaced, markdown)
