//! The texts that the benches redact: this program's own source, and logs and secrets made up here.

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

/// This program's own source.
pub(crate) fn source() -> io::Result<String> {
    let mut text = String::new();
    let mut directories = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                directories.push(path);
            } else {
                text.push_str(&fs::read_to_string(path)?);
            }
        }
    }
    Ok(text)
}

/// Logs and lock files of so many bytes, with a secret here and there.
pub(crate) fn logs(numbers: &mut Numbers, bytes: usize) -> String {
    let mut text = String::new();
    let mut line = 0_u64;
    while text.len() < bytes {
        line += 1;
        let (a, b) = (numbers.next(), numbers.text("0123456789abcdef", 40));
        let _ = match line % 7 {
            0 => writeln!(
                text,
                "2026-03-11T10:22:{:02}Z INFO  request id={b} path=/v1/items/{} status=200 took={}ms",
                a % 60,
                a % 9999,
                a % 80
            ),
            1 => writeln!(
                text,
                "{{\"level\":\"info\",\"ts\":{a},\"msg\":\"token refreshed\",\"user\":{},\"trace\":\"{b}\"}}",
                a % 5000
            ),
            2 => writeln!(
                text,
                "\tat com.example.service.Handler.process(Handler.java:{})",
                a % 400
            ),
            3 => writeln!(
                text,
                "checksum = \"{b}{}\"",
                numbers.text("0123456789abcdef", 24)
            ),
            4 => writeln!(
                text,
                "    \"integrity\": \"sha512-{}==\",",
                numbers.text(BASE64, 86)
            ),
            5 => writeln!(
                text,
                "GET /assets/app-{}.js?v={} HTTP/1.1 200 {}",
                numbers.text("0123456789abcdef", 8),
                a % 100,
                a % 90_000
            ),
            _ => writeln!(
                text,
                "warning: key `{}` was not found in the cache, password prompt skipped",
                numbers.text("abcdefghij", 6)
            ),
        };
        if line.is_multiple_of(997) {
            let _ = writeln!(text, "DEPLOY_TOKEN={}", numbers.token());
        }
    }
    text
}

/// 10 KB with 60 secrets.
pub(crate) fn secrets(numbers: &mut Numbers) -> String {
    let mut text = String::new();
    for index in 0..60 {
        let token = numbers.token();
        let _ = match index % 4 {
            0 => writeln!(text, "SERVICE_{index}_TOKEN={token}"),
            1 => writeln!(text, "  service_{index}_token: \"{token}\""),
            2 => writeln!(
                text,
                "{{\"name\": \"svc-{index}\", \"token\": \"{token}\", \"retries\": 3}}"
            ),
            _ => writeln!(
                text,
                "curl -H 'Authorization: Bearer {token}' https://api.example.com/{index}"
            ),
        };
        let _ = writeln!(
            text,
            "# {}",
            numbers.text("abcdefghij klmnopqrs tuvwxyz", 80)
        );
    }
    text
}

const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Numbers that look random, and are the same in each run.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) const fn new() -> Self {
        Self(1)
    }

    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn text(&mut self, alphabet: &str, length: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..length)
            .filter_map(|_| {
                let index = self.next() as usize % letters.len().max(1);
                letters.get(index).copied()
            })
            .collect()
    }

    fn token(&mut self) -> String {
        let letters = BASE64.trim_end_matches(['+', '/']);
        format!("{}{}", ["gh", "p_"].concat(), self.text(letters, 36))
    }
}
