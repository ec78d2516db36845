//! Texts of the wide table: addresses, titles, phrases, user agents. Equal numbers give equal texts.

use std::fmt::Write;

use super::rank;
use crate::random::{RowRandom, Stream, scaled};

/// Doublings of the number of search phrases.
const PHRASE_LEVELS: u32 = 21;

/// Rows of the page's and user's own places, besides those of columns.
const PLACE: u64 = 5_000;

/// Words of titles, addresses and phrases.
const WORDS: [&str; 128] = [
    "about",
    "account",
    "air",
    "album",
    "apartment",
    "archive",
    "art",
    "auto",
    "baby",
    "bank",
    "bath",
    "beach",
    "best",
    "bike",
    "blog",
    "book",
    "boots",
    "buy",
    "cake",
    "camera",
    "car",
    "catalog",
    "chat",
    "cheap",
    "child",
    "city",
    "class",
    "coffee",
    "color",
    "comment",
    "concert",
    "cook",
    "course",
    "credit",
    "dance",
    "date",
    "day",
    "deal",
    "design",
    "diet",
    "doctor",
    "dog",
    "download",
    "dress",
    "drive",
    "easy",
    "engine",
    "event",
    "exam",
    "family",
    "fashion",
    "film",
    "find",
    "flat",
    "flight",
    "flower",
    "food",
    "football",
    "forum",
    "free",
    "friend",
    "game",
    "garden",
    "gift",
    "girl",
    "glass",
    "gold",
    "group",
    "guide",
    "hair",
    "health",
    "history",
    "holiday",
    "home",
    "horse",
    "hotel",
    "house",
    "image",
    "island",
    "job",
    "kitchen",
    "lake",
    "language",
    "law",
    "lesson",
    "life",
    "light",
    "list",
    "love",
    "lyrics",
    "magazine",
    "map",
    "market",
    "meeting",
    "mobile",
    "money",
    "mountain",
    "movie",
    "music",
    "news",
    "night",
    "online",
    "paper",
    "party",
    "phone",
    "photo",
    "picture",
    "plan",
    "player",
    "poem",
    "price",
    "radio",
    "recipe",
    "rent",
    "review",
    "river",
    "sale",
    "school",
    "series",
    "shoes",
    "shop",
    "song",
    "sport",
    "story",
    "summer",
    "tour",
    "video",
    "weather",
];

/// Endings of hosts, the most frequent ones repeated.
const ENDINGS: [&str; 8] = [".com", ".com", ".com", ".net", ".org", ".ru", ".de", ".info"];

/// Hosts that everybody knows, each in about one of 400 addresses.
const KNOWN: [&str; 4] = ["www.google.com", "news.google.com", "mail.example.org", "maps.example.com"];

const SYSTEMS: [&str; 8] = [
    "Windows NT 6.1; WOW64",
    "Windows NT 6.1",
    "Windows NT 5.1",
    "Windows NT 6.2; WOW64",
    "Macintosh; Intel Mac OS X 10_8_4",
    "X11; Linux x86_64",
    "Linux; U; Android 4.1.2; en-us",
    "iPad; CPU OS 6_1_3 like Mac OS X",
];

fn word(number: u64) -> &'static str {
    WORDS[scaled(number, WORDS.len() as u64) as usize]
}

fn words(random: &RowRandom, first_place: u64, count: u64, between: &str, out: &mut String) {
    for place in 0..count {
        if place > 0 {
            out.push_str(between);
        }
        out.push_str(word(random.at(first_place + place)));
    }
}

/// `length` letters.
pub(crate) fn letters(number: u64, length: u32, out: &mut String) {
    let letters = (0..length).map(|at| char::from(b'a' + (number.rotate_left(at * 5) % 26) as u8));
    out.extend(letters);
}

/// The address of a page; about 70 bytes, some of them several hundred.
pub(crate) fn url(page: &RowRandom, out: &mut String) {
    let number = |place| page.at(PLACE + place);
    out.push_str(if scaled(number(0), 4) == 0 { "https://" } else { "http://" });
    match scaled(number(1), 100) {
        0 => out.push_str(KNOWN[scaled(number(2), 4) as usize]),
        _ => {
            // Few hosts have most of the pages.
            let host = RowRandom::new(rank(number(2), 0..12), Stream::Page, 0);
            out.push_str(if scaled(host.at(3), 2) == 0 { "www." } else { "" });
            words(&host, 0, 2, "-", out);
            out.push_str(ENDINGS[scaled(host.at(4), 8) as usize]);
        }
    }
    out.push('/');
    words(page, PLACE + 10, scaled(number(3), 4), "/", out);
    if scaled(number(4), 3) > 0 {
        write!(out, "/{}.html", number(5) >> 40).expect("memory takes text");
    }
    if scaled(number(6), 2) == 0 {
        out.push('?');
        for parameter in 0..rank(number(7), 0..5) {
            let ampersand = if parameter == 0 { "" } else { "&" };
            let value = page.at(PLACE + 100 + parameter);
            write!(out, "{ampersand}{}={}", word(value.rotate_left(32)), value >> 44).expect("memory takes text");
        }
    }
}

/// The title of a page.
pub(super) fn title(page: &RowRandom, out: &mut String) {
    let number = |place| page.at(PLACE + 200 + place);
    if scaled(number(0), 20) == 0 {
        return;
    }
    words(page, PLACE + 210, 2 + scaled(number(1), 8), " ", out);
    out.push_str(if scaled(number(2), 300) == 0 { " - Google " } else { " - " });
    words(page, PLACE + 230, 2, " ", out);
}

/// What somebody searched for, of two million phrases.
pub(super) fn phrase(number: u64, out: &mut String) {
    let phrase = RowRandom::new(rank(number, 0..PHRASE_LEVELS), Stream::Phrase, 0);
    words(&phrase, 10, 1 + scaled(phrase.at(0), 5), " ", out);
    if scaled(phrase.at(1), 4) == 0 {
        write!(out, " {}", phrase.at(2) >> 50).expect("memory takes text");
    }
}

/// The program that a user reads with.
pub(crate) fn agent(user: &RowRandom, out: &mut String) {
    let number = |place| user.at(PLACE + 300 + place);
    let system = SYSTEMS[rank(number(0), 0..3) as usize - 1];
    let major = 10 + scaled(number(1), 20);
    let build = rank(number(2), 0..9);
    let text = match scaled(number(3), 3) {
        0 => write!(out, "Mozilla/5.0 ({system}; rv:{major}.0) Gecko/20100101 Firefox/{major}.0"),
        1 => write!(out, "Opera/9.80 ({system}) Presto/2.12.{build} Version/{major}.{}", build % 20),
        _ => write!(
            out,
            "Mozilla/5.0 ({system}) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/{major}.0.{build}.95 Safari/537.36"
        ),
    };
    text.expect("memory takes text");
}
