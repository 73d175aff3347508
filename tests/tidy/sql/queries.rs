//! Finds the queries of a statement that are not limited to the rows of one account.
//!
//! A statement is a tree: parentheses form a part of their own. Set operators separate the queries
//! on one level. So each arm of a `UNION`, each common table expression and each subquery is
//! checked by itself.

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

/// The keywords that start a query.
const VERBS: [&str; 4] = ["SELECT", "INSERT", "UPDATE", "DELETE"];
/// The keywords before the name of a table.
const BEFORE_TABLES: [&str; 6] = ["FROM", "JOIN", "INTO", "UPDATE", "USING", "ONLY"];
/// The keywords before a condition that all rows meet.
const BEFORE_CONDITIONS: [&str; 3] = ["WHERE", "AND", "ON"];

/// Returns the first of `tables` that has a query which may touch rows of several accounts.
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

/// `is_inside` is `true` if the query around these items is limited to one account.
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

/// Returns the tables of a query, without those of its subqueries.
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

/// Returns `true` if a query is limited to one account: all its rows must have a certain account,
/// or it adds rows and fills their `account_id`.
fn is_closed<'a>(arm: &[Item], tables: &impl Fn(&str) -> Option<&'a str>, is_inside: bool) -> bool {
    if !arm.iter().any(|item| item.is(&["INSERT"])) {
        return has_condition(arm, is_inside);
    }
    let fills = arm.iter().any(|item| {
        matches!(item, Item::Group(columns) if columns.iter().any(|one| one.is(&["account_id"])))
    });
    // The first table is the one that gets the rows.
    let reads = arm_tables(arm).skip(1).any(|table| tables(table).is_some());
    fills && (!reads || has_condition(arm, is_inside))
}

/// Returns `true` if a condition limits all rows to one account.
fn has_condition(arm: &[Item], is_inside: bool) -> bool {
    let from = arm.iter().position(|item| item.is(&["WHERE", "ON"])).unwrap_or(0);
    let conditions = &arm[from..];
    if conditions.iter().any(|item| item.is(&["OR"])) {
        return false;
    }
    let begins = |at: usize| at == 0 || conditions[at - 1].is(&BEFORE_CONDITIONS);
    (0..conditions.len()).filter(|at| begins(*at)).any(|at| match &conditions[at..] {
        [Item::Word(column), rest @ ..] if is_account(column) => is_one(rest, is_inside),
        // The value must be in the result of another query.
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

/// Returns `true` if the column is compared with one account: with a parameter or, inside a query
/// about one account, with that account.
fn is_one(rest: &[Item], is_inside: bool) -> bool {
    let [equals, Item::Word(value), ..] = rest else { return false };
    equals.is(&["="]) && (value.starts_with(['$', '?']) || (is_inside && is_account(value)))
}
