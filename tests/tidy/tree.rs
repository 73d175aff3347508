//! The files of the repository as text.

use std::fmt;
use std::fs;
use std::path::Path;

/// All files of the repository, sorted by path.
pub struct Tree {
    pub files: Vec<File>,
}

/// A file of the repository.
pub struct File {
    /// The path relative to the repository, with `/`.
    pub path: String,
    /// The content; empty for a file that is no text, such as a picture.
    pub text: String,
    pub bytes: usize,
}

/// A violation that must be fixed.
pub struct Finding {
    location: String,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.location, self.what)
    }
}

impl Finding {
    pub fn new(location: &str, what: impl Into<String>) -> Self {
        Self { location: location.to_owned(), what: what.into() }
    }

    pub fn at(file: &File, line: usize, what: impl Into<String>) -> Self {
        Self { location: format!("{}:{line}", file.path), what: what.into() }
    }
}

impl File {
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

impl Tree {
    /// Reads this repository, without the entries of `.gitignore`.
    pub fn repository() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let ignored = fs::read_to_string(root.join(".gitignore")).expect(".gitignore");
        let mut skip: Vec<&str> = ignored.lines().map(|line| line.trim_end_matches('/')).collect();
        skip.push(".git");
        let mut files = Vec::new();
        walk(root, "", &skip, &mut files);
        files.sort_by(|a, b| a.path.cmp(&b.path));
        assert!(files.len() > 10, "no repository in {}", root.display());
        Self { files }
    }

    /// Returns a tree with the given files.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| File {
            path: path.to_owned(),
            text: text.to_owned(),
            bytes: text.len(),
        };
        Self { files: files.iter().map(file).collect() }
    }

    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Returns the Rust files under a folder.
    pub fn rust(&self, folder: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.is_rust() && file.path.starts_with(folder))
    }

    /// Returns `true` if a file or folder with this path exists.
    pub fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.iter().any(|file| match file.path.strip_prefix(path) {
            Some(rest) => rest.is_empty() || rest.starts_with('/'),
            None => false,
        })
    }
}

fn walk(folder: &Path, prefix: &str, skip: &[&str], files: &mut Vec<File>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let entry = entry.expect("a readable entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        if skip.contains(&name.as_str()) {
            continue;
        }
        let path = format!("{prefix}{name}");
        if entry.file_type().expect("a file type").is_dir() {
            walk(&entry.path(), &format!("{path}/"), skip, files);
        } else {
            let content = fs::read(entry.path()).expect("a readable file");
            // A picture has no text.
            let text = String::from_utf8(content.clone()).unwrap_or_default();
            files.push(File { path, text, bytes: content.len() });
        }
    }
}

/// Fails with all findings, one per line.
pub fn assert_tidy(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(findings.is_empty(), "{} to mend:\n{}", lines.len(), lines.join("\n"));
}

/// Fails unless the findings match `expected` in number and each expected text is part of a
/// finding.
pub fn assert_finds(findings: &[Finding], expected: &[&str]) {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    for part in expected {
        assert!(lines.iter().any(|line| line.contains(part)), "{part:?} not found in {lines:#?}");
    }
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
}
