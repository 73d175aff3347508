//! The queries of a statement, and which of them are on one account's rows alone.
//!
//! A statement is a tree: what is in parentheses is a part of its own. A query is what is between
//! set operators on one level of it, so that each arm of a `UNION`, each common table expression and
//! each subquery is looked at by itself.

/// A part of a query.
#[derive(Debug)]
enum Item {
    Word(String),
    Group(Vec<Item>),
}

impl Item {
    fn is(&self, words: &[&str]) -> bool {
        matches!(self, Self::Word(word) if words.contains(&word.as_str()))
    }
}

/// What begins a query.
const VERBS: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];
/// What comes before the name of a table.
const BEFORE_TABLES: [&str; 6] = ["FROM", "JOIN", "INTO", "UPDATE", "USING", "ONLY"];
/// What comes before a condition that all rows meet.
const BEFORE_CONDITIONS: [&str; 3] = ["WHERE", "AND", "ON"];

/// The first of `tables` that a query is on which may touch the rows of several accounts.
pub fn open_table<'a>(
    statement: &str,
    tables: impl Fn(&str) -> Option<&'a str>,
) -> Option<&'a str> {
    let mut letters = statement.chars().peekable();
    open_in(&items(&mut letters), &tables, false)
}

fn items(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Vec<Item> {
    let mut found = Vec::new();
    while let Some(letter) = letters.next() {
        match letter {
            '(' => found.push(Item::Group(items(letters))),
            ')' => break,
            '\'' => {
                letters.by_ref().take_while(|letter| *letter != '\'').for_each(drop);
                found.push(Item::Word("''".to_owned()));
            }
            letter if letter.is_whitespace() => {}
            letter if is_of_word(letter) => {
                let mut word = String::from(letter);
                while let Some(next) = letters.next_if(|letter| is_of_word(*letter)) {
                    word.push(next);
                }
                found.push(Item::Word(word));
            }
            letter => found.push(Item::Word(letter.to_string())),
        }
    }
    found
}

fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || "_.$?{}:".contains(letter)
}

/// `is_inside` says whether the query around these items is about one account.
fn open_in<'a>(
    items: &[Item],
    tables: &impl Fn(&str) -> Option<&'a str>,
    is_inside: bool,
) -> Option<&'a str> {
    items.split(|item| item.is(&["UNION", "EXCEPT", "INTERSECT", ";"])).find_map(|arm| {
        let is_query = arm.iter().any(|item| item.is(&VERBS));
        let is_closed = is_query && is_closed(arm, tables, is_inside);
        let own = arm_tables(arm).find_map(tables).filter(|_| is_query && !is_closed);
        let is_inside = is_closed || (is_inside && !is_query);
        own.or_else(|| {
            arm.iter().find_map(|item| match item {
                Item::Group(group) => open_in(group, tables, is_inside),
                Item::Word(_) => None,
            })
        })
    })
}

/// The tables that a query names, but for those of its subqueries.
fn arm_tables(arm: &[Item]) -> impl Iterator<Item = &str> {
    let mut in_list = false;
    arm.iter().enumerate().filter_map(move |(at, item)| {
        let Item::Word(word) = item else { return None };
        let follows = at > 0 && arm[at - 1].is(&BEFORE_TABLES);
        let listed = in_list && at > 0 && arm[at - 1].is(&[","]);
        in_list = match word.as_str() {
            "FROM" => true,
            "WHERE" | "SET" | "ON" | "VALUES" | "SELECT" | "GROUP" | "ORDER" => false,
            _ => in_list,
        };
        (follows || listed).then_some(word.as_str())
    })
}

/// Whether a query is about one account: all its rows meet the condition that the account is a
/// certain one, or it adds rows in whose `account_id` it puts one.
fn is_closed<'a>(arm: &[Item], tables: &impl Fn(&str) -> Option<&'a str>, is_inside: bool) -> bool {
    if !arm.iter().any(|item| item.is(&["INSERT"])) {
        return has_condition(arm, is_inside);
    }
    let fills = arm.iter().any(|item| {
        matches!(item, Item::Group(columns) if columns.iter().any(|one| one.is(&["account_id"])))
    });
    // The first one is what it adds to.
    let reads = arm_tables(arm).skip(1).any(|table| tables(table).is_some());
    fills && (!reads || has_condition(arm, is_inside))
}

/// Whether all rows have to be of one account, whatever else they have to be.
fn has_condition(arm: &[Item], is_inside: bool) -> bool {
    let from = arm.iter().position(|item| item.is(&["WHERE", "ON"])).unwrap_or(0);
    let conditions = &arm[from..];
    if conditions.iter().any(|item| item.is(&["OR"])) {
        return false;
    }
    let begins = |at: usize| at == 0 || conditions[at - 1].is(&BEFORE_CONDITIONS);
    (0..conditions.len()).filter(|at| begins(*at)).any(|at| match &conditions[at..] {
        [Item::Word(column), rest @ ..] if is_account(column) => is_one(rest, is_inside),
        // One of the rows that another query finds.
        [Item::Word(_), within, Item::Group(group), ..] if within.is(&["IN"]) => {
            group.iter().any(|item| item.is(&VERBS)) && has_condition(group, is_inside)
        }
        [Item::Group(group), ..] => {
            !group.iter().any(|item| item.is(&VERBS)) && has_condition(group, is_inside)
        }
        _ => false,
    })
}

fn is_account(column: &str) -> bool {
    column == "account_id" || column.ends_with(".account_id")
}

/// Whether a comparison with one account follows: with a parameter or, inside of a query about one
/// account, with that one.
fn is_one(rest: &[Item], is_inside: bool) -> bool {
    let [equals, Item::Word(value), ..] = rest else { return false };
    equals.is(&["="]) && (value.starts_with(['$', '?']) || (is_inside && is_account(value)))
}
