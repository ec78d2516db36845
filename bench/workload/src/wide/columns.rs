//! The 100 columns of the wide table.

use arrow::datatypes::{DataType, TimeUnit};

/// A column's definition.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// Whose numbers it is made of.
    pub(super) of: Entity,
    pub(super) shape: Shape,
    /// NULLs of a thousand rows.
    pub(super) nulls: u64,
}

/// A column's type.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    Bool,
    Small,
    Int,
    Big,
    Date,
    Time,
    Float,
    Decimal,
    Text,
}

/// Whose values a column has: those of one user, one page, or of the row alone.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entity {
    Own,
    User,
    Page,
    Referer,
}

/// How values are distributed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// Always this.
    Constant(i64),
    /// 63 random bits.
    Hash,
    /// Evenly from one to the other, both included.
    Between(i64, i64),
    /// From 0 to below 2^levels, by Zipf's law.
    Skewed(u32),
    /// 0, but in so many of a thousand rows a number from 1, by Zipf's law.
    Rare(u64, u32),
    /// Evenly one of these.
    OneOf(&'static [i64]),
    /// The row's time, or up to 2^n seconds before.
    Second(u32),
    /// Evenly one of these.
    Words(&'static [&'static str]),
    /// Empty, but in so many of a thousand rows one of these, the first ones most often.
    RareWords(u64, &'static [&'static str]),
    /// Empty, but in so many of a thousand rows so many letters.
    Letters(u64, u32),
    /// An address.
    Url,
    /// A title.
    Title,
    /// Empty, but in so many of a thousand rows a search phrase.
    Phrase(u64),
    /// The name of a browser.
    Agent,
}

impl Kind {
    /// As Arrow calls it.
    pub(super) fn data_type(self) -> DataType {
        match self {
            Self::Bool => DataType::Boolean,
            Self::Small => DataType::Int16,
            Self::Int => DataType::Int32,
            Self::Big => DataType::Int64,
            Self::Date => DataType::Date32,
            Self::Time => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Float => DataType::Float64,
            Self::Decimal => DataType::Decimal128(12, 2),
            Self::Text => DataType::Utf8,
        }
    }
}

const fn column(name: &'static str, kind: Kind, of: Entity, shape: Shape) -> Column {
    Column { name, kind, of, shape, nulls: 0 }
}

const fn nullable(nulls: u64, name: &'static str, kind: Kind, of: Entity, shape: Shape) -> Column {
    Column { name, kind, of, shape, nulls }
}

const WIDTHS: &[i64] = &[1024, 1280, 1280, 1366, 1366, 1366, 1440, 1600, 1680, 1920, 1920, 2560, 800, 360, 320];
const HEIGHTS: &[i64] = &[768, 800, 1024, 768, 768, 768, 900, 900, 1050, 1080, 1080, 1440, 600, 640, 480];
const MODELS: &[&str] = &[
    "iPad",
    "iPhone 2",
    "Galaxy S3",
    "Galaxy S4",
    "Nexus 4",
    "Nexus 7",
    "Lumia 520",
    "Lumia 920",
    "One X",
    "Xperia Z",
    "Optimus G",
    "Desire C",
    "Ascend P6",
    "Defy Mini",
    "Bold 9900",
    "Curve 9320",
];
const LANGUAGES: &[&str] = &["en", "de", "fr", "es", "it", "pl", "tr", "uk", "ru", "zh", "ja", "pt", "nl", "sv", "cs"];
const ENCODINGS: &[&str] = &["utf-8", "utf-8", "utf-8", "windows-1251", "iso-8859-1"];
const CURRENCIES: &[&str] = &["EUR", "USD", "GBP", "PLN"];
const CATEGORIES: &[&str] = &["news", "shop", "forum", "video", "mail", "search", "games", "travel"];
const NETWORKS: &[&str] = &["vk", "facebook", "twitter", "odnoklassniki", "google", "linkedin", "tumblr", "pinterest"];

/// In the order of the table.
pub(super) static COLUMNS: [Column; 100] = {
    use Entity::{Own, Page, Referer, User};
    use Kind::{Big, Bool, Date, Decimal, Float, Int, Small, Text, Time};
    use Shape::{
        Agent, Between, Constant, Hash, Letters, OneOf, Phrase, Rare, RareWords, Second, Skewed, Title, Url, Words,
    };
    [
        column("watch_id", Big, Own, Hash),
        column("event_time", Time, Own, Second(0)),
        column("event_date", Date, Own, Second(0)),
        column("counter_id", Int, Page, Skewed(13)),
        column("user_id", Big, User, Hash),
        column("client_ip", Int, User, Between(-2_000_000_000, 2_000_000_000)),
        column("region_id", Int, User, Skewed(12)),
        column("url", Text, Page, Url),
        column("referer", Text, Referer, Url),
        column("title", Text, Page, Title),
        column("search_phrase", Text, Own, Phrase(200)),
        column("search_engine_id", Small, Own, Rare(210, 6)),
        column("adv_engine_id", Small, Own, Rare(6, 5)),
        column("user_agent", Text, User, Agent),
        column("user_agent_major", Small, User, Between(5, 40)),
        column("mobile_phone", Small, User, Rare(80, 6)),
        column("mobile_phone_model", Text, User, RareWords(60, MODELS)),
        column("os", Small, User, Skewed(7)),
        column("resolution_width", Small, User, OneOf(WIDTHS)),
        column("resolution_height", Small, User, OneOf(HEIGHTS)),
        column("resolution_depth", Small, User, OneOf(&[24, 24, 24, 32, 32, 16])),
        column("window_width", Small, Own, Between(300, 2_000)),
        column("window_height", Small, Own, Between(200, 1_300)),
        column("is_refresh", Bool, Own, Rare(120, 1)),
        column("is_link", Bool, Own, Rare(50, 1)),
        column("is_download", Bool, Own, Rare(3, 1)),
        column("is_mobile", Bool, User, Rare(80, 1)),
        column("is_robot", Bool, User, Rare(20, 1)),
        column("is_event", Bool, Own, Rare(250, 1)),
        column("is_parameter", Bool, Own, Constant(0)),
        column("dont_count", Small, Own, Rare(100, 1)),
        column("trafic_source_id", Small, Own, OneOf(&[-1, 0, 0, 0, 1, 2, 2, 3, 4, 6])),
        column("referer_category_id", Int, Referer, Skewed(14)),
        column("referer_region_id", Int, Referer, Skewed(12)),
        column("url_category_id", Int, Page, Skewed(14)),
        column("url_region_id", Int, Page, Skewed(12)),
        column("url_hash", Big, Page, Hash),
        column("referer_hash", Big, Referer, Hash),
        column("category", Text, Page, Words(CATEGORIES)),
        column("browser_language", Text, User, Words(LANGUAGES)),
        column("browser_country", Text, User, RareWords(900, LANGUAGES)),
        column("page_charset", Text, Page, Words(ENCODINGS)),
        column("java_enable", Bool, User, Rare(700, 1)),
        column("cookie_enable", Bool, User, Rare(980, 1)),
        column("javascript_enable", Bool, User, Rare(990, 1)),
        column("flash_major", Small, User, Between(8, 11)),
        column("flash_minor", Small, User, Skewed(3)),
        column("flash_detail", Text, User, Letters(50, 3)),
        column("net_major", Small, User, Rare(300, 3)),
        column("net_minor", Small, User, Rare(300, 2)),
        column("silverlight", Int, User, Rare(250, 12)),
        column("code_version", Int, Own, Between(1_400, 1_420)),
        column("counter_class", Small, Page, OneOf(&[-1, 0, 0, 1, 1, 1])),
        column("client_time", Time, Own, Second(14)),
        column("client_timezone", Small, User, OneOf(&[-300, 0, 60, 120, 120, 180, 240, 240, 330, 540])),
        column("local_time", Time, Own, Second(11)),
        column("first_visit", Date, User, Between(1_262_304_000, 1_372_636_800)),
        column("session_id", Big, User, Hash),
        column("session_views", Int, Own, Skewed(9)),
        column("session_seconds", Int, Own, Skewed(13)),
        nullable(300, "age", Small, User, Between(10, 90)),
        nullable(300, "sex", Small, User, Between(0, 2)),
        nullable(250, "income", Small, User, Between(0, 4)),
        column("interests", Int, User, Skewed(15)),
        column("robotness", Small, User, Rare(50, 6)),
        nullable(100, "remote_ip", Int, User, Between(-2_000_000_000, 2_000_000_000)),
        column("window_name", Int, Own, Between(-1, 20_000)),
        column("opener_name", Int, Own, Skewed(15)),
        column("history_length", Small, Own, Skewed(8)),
        nullable(150, "http_error", Small, Own, OneOf(&[200, 200, 200, 200, 304, 404, 500])),
        column("send_timing", Int, Own, Skewed(16)),
        column("dns_timing", Int, Own, Skewed(12)),
        column("connect_timing", Int, Own, Skewed(12)),
        column("response_start_timing", Int, Own, Skewed(14)),
        column("response_end_timing", Int, Own, Skewed(15)),
        column("fetch_timing", Int, Own, Skewed(14)),
        nullable(400, "render_timing", Float, Own, Between(0, 1_000_000)),
        column("scroll_depth", Float, Own, Skewed(12)),
        column("load_ratio", Float, Own, Between(0, 64)),
        column("social_network", Text, Own, RareWords(10, NETWORKS)),
        column("social_action", Text, Own, RareWords(10, &["like", "share", "comment", "follow"])),
        nullable(950, "social_source_page", Text, Referer, Url),
        column("param_price", Big, Own, Rare(8, 20)),
        column("param_order_id", Text, Own, Letters(4, 12)),
        column("param_currency", Text, Own, RareWords(8, CURRENCIES)),
        column("param_currency_id", Small, Own, Rare(8, 2)),
        column("goals_reached", Int, Own, Rare(30, 8)),
        nullable(900, "cart_value", Decimal, Own, Between(0, 5_000_000)),
        nullable(980, "order_value", Decimal, Own, Between(100, 90_000_000)),
        column("ad_price", Decimal, Own, Rare(60, 14)),
        column("openstat_service", Text, Own, Letters(2, 6)),
        column("openstat_campaign", Text, Own, Letters(2, 8)),
        column("openstat_ad", Text, Own, Letters(2, 8)),
        column("utm_source", Text, Own, RareWords(40, &["newsletter", "banner", "partner", "social"])),
        column("utm_medium", Text, Own, RareWords(40, &["email", "cpc", "display", "referral"])),
        column("utm_campaign", Text, Own, Letters(40, 4)),
        nullable(970, "utm_content", Text, Own, Letters(1_000, 9)),
        column("utm_term", Text, Own, Phrase(15)),
        column("from_tag", Text, Own, Letters(10, 5)),
        column("has_gclid", Bool, Own, Rare(5, 1)),
    ]
};
