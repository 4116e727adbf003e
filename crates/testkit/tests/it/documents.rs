//! Checks the documents: links are valid, and lists are complete.

use std::path::{Path, PathBuf};

use crate::repository;

fn documents() -> Vec<PathBuf> {
    let root = repository::root();
    let below = repository::files_under(&root.join("docs")).into_iter();
    let beside =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(|name| root.join(name));
    below.chain(beside).filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// The targets of a document's links within the repository, without anchors. Code is ignored.
fn links(text: &str) -> Vec<String> {
    let mut is_code = false;
    let prose = text.lines().filter(|line| {
        is_code ^= line.trim_start().starts_with("```");
        !is_code
    });
    let mut found = Vec::new();
    for line in prose {
        let outside_of_code: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        for part in outside_of_code.split("](").skip(1) {
            let target = part.split([')', ' ']).next().unwrap_or_default();
            let target = target.split('#').next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with('/') {
                found.push(target.to_owned());
            }
        }
    }
    found
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    let mut broken = Vec::new();
    for document in documents() {
        let folder = document.parent().unwrap_or_else(|| Path::new("/"));
        for link in links(&repository::read(&document)) {
            if !folder.join(&link).exists() {
                broken.push(format!("{}: {link}", document.display()));
            }
        }
    }
    assert!(broken.is_empty(), "these links lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn links_are_found_in_prose_and_not_in_code() {
    assert_eq!(
        links("a [b](c.md#d), [e](f/) and `[g](h.md)`\n```\n[i](j.md)\n```\n[k](https://l)"),
        ["c.md", "f/"]
    );
}

#[test]
fn the_list_of_errors_names_every_one_with_its_status_and_title() {
    let root = repository::root();
    let list = repository::read(&root.join("docs/errors.md"));
    let pages = repository::files_under(&root.join("docs/errors"));
    assert!(pages.len() > 40, "{pages:?}");
    for page in &pages {
        let name = page.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let text = repository::read(page);
        let title = text.lines().next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
        let status = text.split("Status ").nth(1).map(|rest| rest.chars().take(3).collect::<String>());
        let row = format!("| [`{name}`](errors/{name}.md) | {} | {title} |", status.unwrap_or_default());
        assert!(list.contains(&row), "docs/errors.md has no row like this: {row}");
    }
    assert_eq!(list.lines().filter(|line| line.starts_with("| [`")).count(), pages.len());
}

#[test]
fn every_guide_is_in_the_list_of_guides() {
    let folder = repository::root().join("docs/guides");
    let list = repository::read(&folder.join("README.md"));
    for guide in repository::files_under(&folder) {
        let name = guide.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        assert!(name == "README.md" || list.contains(&format!("({name})")), "{name} is not in the list");
    }
}

#[test]
fn architecture_has_at_most_1500_words() {
    let words = repository::read(&repository::root().join("ARCHITECTURE.md")).split_whitespace().count();
    assert!(words <= 1500, "ARCHITECTURE.md has {words} words: move details to an ADR");
}
