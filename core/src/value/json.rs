//! Errors of JSON text from other programs: the member and the position, without serde's wording.
//!
//! serde reads an object at once. If that fails the object is read again here, member by member, so
//! only broken text takes longer.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::error::Category;
use serde_json::value::RawValue;

/// The type of an object's member.
#[derive(Clone, Copy)]
pub(crate) enum MemberType {
    Anything,
    Text,
    /// A `u64`.
    Natural,
    /// A list of `u64`.
    Naturals,
    /// A list of `i64`.
    Integers,
}

/// A member's name, its type, and whether it may be missing.
pub(crate) type JsonMember = (&'static str, MemberType, bool);

/// An error in a text, and the member that has it.
#[derive(Debug)]
pub(crate) struct JsonFault {
    /// `None` for the text as a whole.
    pub(crate) member: Option<String>,
    pub(crate) reason: String,
}

impl JsonFault {
    fn of(member: &str, reason: impl Into<String>) -> Self {
        Self { member: Some(shortened(member)), reason: reason.into() }
    }

    fn whole(reason: impl Into<String>) -> Self {
        Self { member: None, reason: reason.into() }
    }
}

/// Returns the first error of a text that is not an object with these members.
pub(crate) fn fault(text: &str, members: &[JsonMember]) -> JsonFault {
    match find(text, members) {
        Err(fault) => fault,
        Ok(()) => JsonFault::whole("it is not a valid object"),
    }
}

fn find(text: &str, members: &[JsonMember]) -> Result<(), JsonFault> {
    let found = read(text)?;
    for (index, (name, value)) in found.iter().enumerate() {
        let member = members.iter().find(|member| member.0 == name);
        let (_, kind, _) = member.ok_or_else(|| JsonFault::of(name, "unknown field"))?;
        if found[..index].iter().any(|(earlier, _)| earlier == name) {
            return Err(JsonFault::of(name, "duplicate field"));
        }
        check(name, *kind, value.get())?;
    }
    let is_missing =
        |member: &&JsonMember| !member.2 && found.iter().all(|(name, _)| name != member.0);
    match members.iter().find(is_missing) {
        Some((name, ..)) => Err(JsonFault::of(name, "missing field")),
        None => Ok(()),
    }
}

fn check(name: &str, kind: MemberType, value: &str) -> Result<(), JsonFault> {
    match kind {
        MemberType::Anything => Ok(()),
        MemberType::Text if is_a::<String>(value) => Ok(()),
        MemberType::Text => {
            Err(JsonFault::of(name, format!("{} is not a string", shortened(value))))
        }
        MemberType::Natural => check_number::<u64>(name, value),
        MemberType::Naturals => check_numbers::<u64>(name, value),
        MemberType::Integers => check_numbers::<i64>(name, value),
    }
}

fn check_numbers<T: WholeNumber>(name: &str, list: &str) -> Result<(), JsonFault> {
    let numbers: Vec<&RawValue> = serde_json::from_str(list).map_err(|_| {
        JsonFault::of(name, format!("{} is not a list of whole numbers", shortened(list)))
    })?;
    let check = |(index, value): (usize, &&RawValue)| {
        check_number::<T>(&format!("{name}[{index}]"), value.get())
    };
    numbers.iter().enumerate().try_for_each(check)
}

fn check_number<T: WholeNumber>(name: &str, value: &str) -> Result<(), JsonFault> {
    if is_a::<T>(value) {
        Ok(())
    } else {
        let reason =
            format!("{} is not a whole number from {} to {}", shortened(value), T::LEAST, T::MOST);
        Err(JsonFault::of(name, reason))
    }
}

trait WholeNumber: for<'de> Deserialize<'de> {
    const LEAST: i128;
    const MOST: i128;
}

impl WholeNumber for u64 {
    const LEAST: i128 = 0;
    const MOST: i128 = Self::MAX as i128;
}

impl WholeNumber for i64 {
    const LEAST: i128 = Self::MIN as i128;
    const MOST: i128 = Self::MAX as i128;
}

fn is_a<T: for<'de> Deserialize<'de>>(value: &str) -> bool {
    serde_json::from_str::<T>(value).is_ok()
}

/// Returns the members of an object, in the order of the text.
fn read(text: &str) -> Result<Vec<(String, &RawValue)>, JsonFault> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let mut current = None;
    let members = InOrder(&mut current).deserialize(&mut deserializer);
    let members = members.map_err(|error| broken(text, current, &error))?;
    let more = |error: serde_json::Error| {
        JsonFault::whole(format!("trailing text at {}", position(text, &error)))
    };
    deserializer.end().map_err(more)?;
    Ok(members)
}

fn broken(text: &str, member: Option<String>, error: &serde_json::Error) -> JsonFault {
    let too_early = || format!("the text ends too early, after character {}", text.chars().count());
    match (error.classify(), member) {
        (Category::Eof, _) => JsonFault::whole(too_early()),
        (Category::Data, _) => {
            JsonFault::whole(format!("{} is not a JSON object", shortened(text)))
        }
        (_, Some(member)) => {
            JsonFault::of(&member, format!("it is not JSON at {}", position(text, error)))
        }
        (_, None) => JsonFault::whole(format!("it is not JSON at {}", position(text, error))),
    }
}

/// Returns a position for people. serde counts bytes, people count characters.
fn position(text: &str, error: &serde_json::Error) -> String {
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let character = line.char_indices().filter(|(at, _)| *at < error.column()).count();
    match error.line() {
        1 => format!("character {character}"),
        number => format!("line {number}, character {character}"),
    }
}

fn shortened(text: &str) -> String {
    const MOST: usize = 40;
    let short: String = text.chars().take(MOST).collect();
    if short.len() == text.len() { short } else { short + "…" }
}

/// Reads the members of an object, and records which one is being read.
struct InOrder<'a>(&'a mut Option<String>);

impl<'de> DeserializeSeed<'de> for InOrder<'_> {
    type Value = Vec<(String, &'de RawValue)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for InOrder<'_> {
    type Value = Vec<(String, &'de RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = vec![];
        while let Some(name) = map.next_key::<String>()? {
            *self.0 = Some(name.clone());
            members.push((name, map.next_value()?));
            *self.0 = None;
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMBERS: &[JsonMember] = &[
        ("a", MemberType::Natural, false),
        ("b", MemberType::Integers, false),
        ("c", MemberType::Text, true),
        ("d", MemberType::Anything, true),
        ("e", MemberType::Naturals, true),
    ];

    #[test]
    fn each_fault_is_named_with_its_member_or_its_position() {
        let most = u64::MAX;
        for (text, member, reason) in [
            ("", "", "the text ends too early, after character 0".to_owned()),
            ("{\"a\": 1, \"ä", "", "the text ends too early, after character 11".into()),
            ("{\"a\":x}", "a", "it is not JSON at character 6".into()),
            ("{\"ä\":1,\n \"b\":x}", "b", "it is not JSON at line 2, character 6".into()),
            ("{,}", "", "it is not JSON at character 2".into()),
            ("{\"a\":1,\"b\":[]} x", "", "trailing text at character 16".into()),
            ("[1]", "", "[1] is not a JSON object".into()),
            ("{}", "a", "missing field".into()),
            ("{\"a\":1}", "b", "missing field".into()),
            ("{\"a\":1,\"a\":1}", "a", "duplicate field".into()),
            ("{\"a\":1,\"x\":1}", "x", "unknown field".into()),
            ("{\"a\":-1}", "a", format!("-1 is not a whole number from 0 to {most}")),
            ("{\"a\":1e3}", "a", format!("1e3 is not a whole number from 0 to {most}")),
            ("{\"a\":null}", "a", format!("null is not a whole number from 0 to {most}")),
            ("{\"a\":1,\"b\":3}", "b", "3 is not a list of whole numbers".into()),
            (
                "{\"a\":1,\"b\":[1,\"2\"]}",
                "b[1]",
                "\"2\" is not a whole number from -9223372036854775808 to 9223372036854775807"
                    .into(),
            ),
            (
                "{\"e\":[18446744073709551616]}",
                "e[0]",
                format!("18446744073709551616 is not a whole number from 0 to {most}"),
            ),
            ("{\"c\":\"\\ud800\"}", "c", "\"\\ud800\" is not a string".into()),
        ] {
            let fault = fault(text, MEMBERS);
            assert_eq!(
                (fault.member.unwrap_or_default().as_str(), fault.reason),
                (member, reason),
                "{text}"
            );
        }
    }

    #[test]
    fn a_long_value_is_shortened_in_an_error() {
        let fault = fault(&format!("{{\"{}\":1}}", "x".repeat(100)), MEMBERS);
        assert_eq!(fault.member, Some("x".repeat(40) + "…"));
    }
}
