//! The Python literals of an NPY header, read strictly and in linear time.
//!
//! A header is text in Python's syntax. Only these literals occur in it, and nothing else is read:
//!
//! | literal | as |
//! |---|---|
//! | text | `'…'` or `"…"`, with Python's escapes; a `u` may stand before it (Python 2) |
//! | whole numbers | decimal digits; an `L` may stand behind them, if the file may be Python 2's |
//! | truth values | `True`, `False` |
//! | tuples, lists, dictionaries | of these; a last comma is allowed; keys are text |
//!
//! Python expressions, names, comments and negative numbers are faults.

use std::borrow::Cow;

use super::fault::Fault;

/// The deepest nesting: that of Python's own parser, by which NumPy reads headers.
const DEPTH_MOST: usize = 200;

/// A value of a header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Literal<'a> {
    Text(Cow<'a, str>),
    Number(u64),
    Truth(bool),
    Tuple(Vec<Literal<'a>>),
    List(Vec<Literal<'a>>),
    Dictionary(Vec<(Cow<'a, str>, Literal<'a>)>),
}

impl<'a> Literal<'a> {
    /// Reads a text that is one literal, with white space around it. `has_longs` says that Python 2
    /// may have written it.
    pub(super) fn parse(text: &'a str, has_longs: bool) -> Result<Self, Fault> {
        let mut reader = Reader { text, at: 0, has_longs };
        let literal = reader.value(0)?;
        match reader.peek() {
            None => Ok(literal),
            Some(_) => Err(reader.fault("nothing more")),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    has_longs: bool,
}

impl<'a> Reader<'a> {
    /// Skips white space. Returns the next byte, which stays.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..];
        let space = rest
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0C))
            .count();
        self.at += space;
        rest.get(space).copied()
    }

    /// Takes a byte if it is the next one after white space.
    fn takes(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn fault(&self, expected: &str) -> Fault {
        let found: String = self.text[self.at..].chars().take(20).collect();
        let found = if found.is_empty() { "the end".to_owned() } else { format!("{found:?}") };
        Fault::new("header", format!("expected {expected} at byte {}, found {found}", self.at))
    }

    fn value(&mut self, depth: usize) -> Result<Literal<'a>, Fault> {
        if depth > DEPTH_MOST {
            return Err(Fault::new("header", format!("it nests deeper than {DEPTH_MOST} levels")));
        }
        match self.peek() {
            Some(b'\'' | b'"' | b'u') => self.text().map(Literal::Text),
            Some(b'0'..=b'9') => self.number().map(Literal::Number),
            Some(b'T' | b'F') => self.truth(),
            Some(b'(') => self.tuple(depth),
            Some(b'[') => self.items(b']', depth).map(|(items, _)| Literal::List(items)),
            Some(b'{') => self.dictionary(depth),
            _ => Err(self.fault("a literal")),
        }
    }

    fn number(&mut self) -> Result<u64, Fault> {
        let rest = &self.text[self.at..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = rest[..digits].parse::<u64>().ok().filter(|number| *number <= i64::MAX as u64);
        let Some(number) = number else { return Err(self.fault("a number below 2^63")) };
        let is_long = self.has_longs && rest.as_bytes().get(digits) == Some(&b'L');
        self.at += digits + usize::from(is_long);
        Ok(number)
    }

    fn truth(&mut self) -> Result<Literal<'a>, Fault> {
        for (word, value) in [("True", true), ("False", false)] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(Literal::Truth(value));
            }
        }
        Err(self.fault("True or False"))
    }

    /// Reads `(1, 2)`, `(1,)`, `()`, and the value in brackets of `(1)`.
    fn tuple(&mut self, depth: usize) -> Result<Literal<'a>, Fault> {
        let (mut items, has_comma) = self.items(b')', depth)?;
        if items.len() == 1 && !has_comma {
            items.pop().ok_or_else(|| self.fault("a value"))
        } else {
            Ok(Literal::Tuple(items))
        }
    }

    /// Reads values with commas between them, brackets included. Also returns whether there was a
    /// last comma.
    fn items(&mut self, end: u8, depth: usize) -> Result<(Vec<Literal<'a>>, bool), Fault> {
        self.at += 1;
        let mut items = Vec::new();
        let mut has_comma = false;
        while !self.takes(end) {
            if !items.is_empty() && !has_comma {
                return Err(self.fault("a comma or the closing bracket"));
            }
            items.push(self.value(depth + 1)?);
            has_comma = self.takes(b',');
        }
        Ok((items, has_comma))
    }

    fn dictionary(&mut self, depth: usize) -> Result<Literal<'a>, Fault> {
        self.at += 1;
        let mut fields = Vec::with_capacity(3);
        let mut has_comma = true;
        while !self.takes(b'}') {
            if !has_comma {
                return Err(self.fault("a comma or the closing brace"));
            }
            self.peek();
            let key = self.text()?;
            if !self.takes(b':') {
                return Err(self.fault("a colon"));
            }
            fields.push((key, self.value(depth + 1)?));
            has_comma = self.takes(b',');
        }
        Ok(Literal::Dictionary(fields))
    }

    fn text(&mut self) -> Result<Cow<'a, str>, Fault> {
        let from = self.at + usize::from(self.text[self.at..].starts_with('u'));
        let Some(quote @ (b'\'' | b'"')) = self.text.as_bytes().get(from).copied() else {
            return Err(self.fault("text in quotes"));
        };
        let body = &self.text[from + 1..];
        let stop = body.bytes().position(|byte| byte == quote || byte == b'\\' || byte == b'\n');
        match stop.map(|stop| (stop, body.as_bytes()[stop])) {
            Some((stop, byte)) if byte == quote => {
                self.at = from + 1 + stop + 1;
                Ok(Cow::Borrowed(&body[..stop]))
            }
            _ => self.escaped_text(from + 1, char::from(quote)).map(Cow::Owned),
        }
    }

    /// Reads text with escapes, from behind its quote on.
    fn escaped_text(&mut self, from: usize, quote: char) -> Result<String, Fault> {
        let text = self.text;
        let mut read = String::new();
        let mut rest = text[from..].chars();
        loop {
            match rest.next() {
                Some('\\') => read.push(escape(&mut rest).ok_or_else(|| self.fault("text"))?),
                Some(end) if end == quote => break,
                Some('\n') | None => return Err(self.fault("text that ends with its quote")),
                Some(other) => read.push(other),
            }
        }
        self.at = text.len() - rest.as_str().len();
        Ok(read)
    }
}

/// Returns the character of an escape, of which the backslash was read.
///
/// Source: The Python Language Reference, "Escape sequences".
fn escape(rest: &mut std::str::Chars<'_>) -> Option<char> {
    let digits = match rest.next()? {
        same @ ('\\' | '\'' | '"') => return Some(same),
        'n' => return Some('\n'),
        'r' => return Some('\r'),
        't' => return Some('\t'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => return None,
    };
    let mut number = 0;
    for _ in 0..digits {
        number = number * 16 + rest.next()?.to_digit(16)?;
    }
    char::from_u32(number)
}

/// Appends text as Python's `repr` writes it.
pub(super) fn write_text(text: &str, to: &mut String) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    to.push(quote);
    for character in text.chars() {
        match character {
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\t' => to.push_str("\\t"),
            same if same == quote => to.extend(['\\', same]),
            hidden if is_hidden(hidden) => write_code(hidden, to),
            other => to.push(other),
        }
    }
    to.push(quote);
}

/// Whether Python escapes a character because it cannot be printed. Rust escapes those of the same
/// categories, and such as combine with the one before them, if there is none.
fn is_hidden(character: char) -> bool {
    let behind_another: String = ['a', character].iter().collect();
    let is_escaped = || behind_another.escape_debug().any(|escaped| escaped == '\\');
    character.is_control() || !character.is_ascii() && is_escaped()
}

/// Appends the escape of a character that cannot be printed.
fn write_code(character: char, to: &mut String) {
    let code = u32::from(character);
    to.push_str(&match code {
        0..=0xFF => format!("\\x{code:02x}"),
        0x100..=0xFFFF => format!("\\u{code:04x}"),
        _ => format!("\\U{code:08x}"),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Literal<'_> {
        Literal::Text(text.into())
    }

    #[test]
    fn every_literal_of_a_header_is_read() {
        let numbers = Literal::Tuple(vec![Literal::Number(1), Literal::Number(2)]);
        for (written, read) in [
            ("'a'", text("a")),
            ("u\"a'b\"", text("a'b")),
            (r"'\\ \' \n \x41 \u00e9 \U0001F600'", text("\\ ' \n A é 😀")),
            (" 12 ", Literal::Number(12)),
            ("(1L, 2L)", numbers),
            ("(3)", Literal::Number(3)),
            ("(3,)", Literal::Tuple(vec![Literal::Number(3)])),
            ("()", Literal::Tuple(vec![])),
            ("[('a', '<i4'), ]", Literal::List(vec![Literal::Tuple(vec![text("a"), text("<i4")])])),
            ("{'a': True,\n 'b': False}", {
                let fields = [("a", true), ("b", false)];
                let field = |(key, value): (&'static str, _)| (key.into(), Literal::Truth(value));
                Literal::Dictionary(fields.into_iter().map(field).collect())
            }),
        ] {
            assert_eq!(Literal::parse(written, true).unwrap(), read, "{written}");
        }
    }

    #[test]
    fn a_python_expression_is_refused() {
        for text in [
            "",
            "(",
            "[1",
            "{'a'}",
            "{'a': }",
            "{1: 2}",
            "1 + 1",
            "-1",
            "1_000",
            "1.0",
            "0x10",
            "__import__('os')",
            "'a' 'b'",
            "'a",
            "'\\q'",
            "'\\x4'",
            "'\\ud800'",
            "None",
            "True1",
            "(,)",
            "(1,,)",
            "(1 2)",
            "b'a'",
            "# 1",
            "1 # comment",
            "9223372036854775808",
            "99999999999999999999",
            "{**{}}",
            "[i for i in ()]",
            "'a\nb'",
            "f'{1}'",
        ] {
            assert!(Literal::parse(text, true).is_err(), "{text}");
        }
        assert!(Literal::parse(&"(".repeat(100_000), true).is_err());
        assert!(Literal::parse("(1L, 2L)", false).is_err());
    }

    #[test]
    fn text_is_written_as_python_writes_it() {
        for (text, written) in [
            ("it's", "\"it's\""),
            ("it's \"", r#"'it\'s "'"#),
            ("\u{0}\u{1f}\u{7f}\u{85}\u{a0}", r"'\x00\x1f\x7f\x85\xa0'"),
            ("\u{200b}\u{2028}\u{e000}", r"'\u200b\u2028\ue000'"),
            ("\u{e0001}", r"'\U000e0001'"),
            ("é e\u{301} 整 😀", "'é e\u{301} 整 😀'"),
        ] {
            let mut found = String::new();
            write_text(text, &mut found);
            assert_eq!(found, written);
        }
    }

    #[test]
    fn text_reads_back_as_it_was_written() {
        for text in ["", "a", "it's", "\"", "'\"", "\\", "\n\t\r\0\x7f", "é \u{2028} 😀", "\u{85}"]
        {
            let mut written = String::new();
            write_text(text, &mut written);
            assert_eq!(Literal::parse(&written, false).unwrap(), Literal::Text(text.into()));
        }
    }
}
