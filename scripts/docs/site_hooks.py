"""Hooks of mkdocs (mkdocs.yml): the navigation of nav.py, and the pages as site_pages.py makes them."""
import logging
import os
import posixpath
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import nav  # noqa: E402
import site_pages  # noqa: E402
from mkdocs.structure.files import File, InclusionLevel  # noqa: E402

log = logging.getLogger("mkdocs.hooks.tessera")


def on_config(config):
    docs = config.docs_dir
    sections, _ = nav.resolved(docs)
    entries = []
    for title, pages in sections:
        found = [site_pages.page_of(posixpath.normpath("docs/" + p)) if p.startswith("../") else p for p in pages]
        entries.append({title: found[0] if len(found) == 1 else found})
    config.nav = entries
    return config


def on_files(files, config):
    sources = {}
    for file in list(files):
        if file.is_documentation_page():
            if file.src_uri == "README.md" and site_pages.page_of("docs") == "index.md":
                files.remove(file)
                continue
            sources["docs/" + file.src_uri] = file.content_string
    in_nav = [posixpath.normpath("docs/" + p) for _, pages in nav.resolved(config.docs_dir)[0] for p in pages if p.startswith("../")]
    for path in in_nav:
        sources[path] = site_pages.text_of(path)
    for path, text in sorted({**site_pages.outside(sources), **{p: sources[p] for p in in_nav}}.items()):
        if text:
            made = File.generated(config, site_pages.page_of(path), content=text)
        else:
            made = File.generated(config, site_pages.page_of(path), abs_src_path=os.path.join(site_pages.ROOT, path))
        made.inclusion = InclusionLevel.INCLUDED if path in in_nav else InclusionLevel.NOT_IN_NAV
        made.repository_path = site_pages.source_of(path)
        files.append(made)
    return files


def on_page_markdown(markdown, page, config, files):
    source = getattr(page.file, "repository_path", "docs/" + page.file.src_uri)
    return site_pages.for_python_markdown(site_pages.relinked(markdown, page.file.src_uri, source))


def on_page_content(html, page, config, files):
    if site_pages.has_fence(html):
        log.warning(f"Doc file '{page.file.src_uri}' contains a fence that was not understood.")
    return html
