//! What an ALTER TABLE says of how a table lies on disk: its order, or a projection.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// CLUSTER BY.
    Order,
    /// ADD PROJECTION or DROP PROJECTION.
    Projection,
}

/// What the tokens of an ALTER TABLE say; `None` where they are about something else, as a column that is called projection.
pub fn told(tokens: &[TokenWithSpan]) -> Option<Layout> {
    let words =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF | Token::SemiColon));
    let words: Vec<String> = words.map(|token| token.token.to_string().to_uppercase()).collect();
    let is_end = |word: Option<&String>| word.is_none_or(|word| matches!(&**word, "CASCADE" | "RESTRICT"));
    let said = |(place, pair): (usize, &[String])| match [&*pair[0], &*pair[1]] {
        ["CLUSTER", "BY"] => Some(Layout::Order),
        ["ADD", "PROJECTION"] => {
            let has_order = words[place..].windows(3).any(|next| next == ["(", "ORDER", "BY"]);
            has_order.then_some(Layout::Projection)
        }
        ["DROP", "PROJECTION"] => (!is_end(words.get(place + 2))).then_some(Layout::Projection),
        _ => None,
    };
    words.windows(2).enumerate().find_map(said)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    use super::*;

    #[test]
    fn columns_that_are_called_projection_are_no_projections() {
        let told =
            |text: &str| told(&Tokenizer::new(&GenericDialect {}, text).tokenize_with_location().expect("tokens"));
        assert_eq!(told("ALTER TABLE t CLUSTER BY (a)"), Some(Layout::Order));
        for text in [
            "t ADD PROJECTION p (ORDER BY a)",
            "t add projection if not exists p (order by a) (b);",
            "t DROP PROJECTION p",
        ] {
            assert_eq!(told(&format!("ALTER TABLE {text}")), Some(Layout::Projection), "{text}");
        }
        for text in [
            "t ADD projection DECIMAL(9, 2)",
            "t DROP projection;",
            "t DROP projection CASCADE",
            "t ADD COLUMN a INTEGER",
        ] {
            assert_eq!(told(&format!("ALTER TABLE {text}")), None, "{text}");
        }
    }
}
