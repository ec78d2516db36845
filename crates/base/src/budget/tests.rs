//! What an account grants and says.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;

#[test]
fn limits_hold_to_the_byte_and_all_comes_back() {
    let budget = Budget::new(100);
    let (reads, chunks) = (budget.client("reads", 60, Backing::System), budget.client("chunks", 80, Backing::System));
    let mut first = reads.reserve(40).expect("in budget");
    assert!(reads.try_reserve(21).is_none(), "beyond its own limit");
    let second = chunks.reserve(60).expect("in budget");
    assert!(chunks.try_reserve(1).is_none() && reads.try_reserve(1).is_none(), "beyond the total");
    assert!(reads.try_reserve(0).is_some());
    first.shrink(10);
    first.grow(10).expect("what was given back");
    assert!(!first.try_grow(1) && first.bytes() == 40);
    drop(second);
    first.grow(20).expect("to its limit");
    assert!(first.grow(1).is_err() && chunks.try_reserve(40).is_some());
    drop(first);
    assert_eq!(budget.held_bytes(), 0);
    let figures = budget.figures();
    let figures: Vec<_> = figures.iter().map(|client| (&*client.name, client.peak_bytes)).collect();
    assert_eq!(figures, [("reads", 60), ("chunks", 60)]);
}

#[test]
fn an_error_says_who_holds_what() {
    let budget = Budget::new(3 << 20);
    let (reads, chunks) = (
        budget.client("read buffers", 3 << 20, Backing::System),
        budget.client("inflated chunks", 2 << 20, Backing::System),
    );
    let _held = reads.reserve(2 << 20).expect("in budget");
    let error = chunks.reserve(2 << 20).expect_err("too much");
    assert_eq!(error.kind(), ErrorKind::OutOfMemory);
    assert_eq!(
        error.to_string(),
        "the memory of the process is exhausted: 2.00 MiB more are wanted for inflated chunks, where there may be 3.00 MiB, and \
         of 3.00 MiB for all hold read buffers 2.00 MiB. Give the database more with --memory, or run fewer queries at once"
    );
    assert!(
        Budget::new(0)
            .client("rows", 1, Backing::System)
            .reserve(1)
            .expect_err("nothing")
            .message()
            .contains("nobody anything")
    );
}

#[test]
fn what_is_overdrawn_is_taken_from_what_is_left() {
    let budget = Budget::new(100);
    let (reads, chunks) = (budget.client("reads", 50, Backing::System), budget.client("chunks", 100, Backing::System));
    let held = chunks.reserve(90).expect("in budget");
    let mut overdrawn = reads.overdraw(60);
    assert_eq!((budget.held_bytes(), budget.figures()[0].overdrawn_bytes), (150, 60));
    assert!(chunks.try_reserve(1).is_none() && reads.try_reserve(1).is_none() && reads.try_reserve(0).is_some());
    drop(held);
    assert!(reads.try_reserve(1).is_none() && chunks.try_reserve(40).is_some());
    overdrawn.shrink(30);
    assert!(reads.try_reserve(20).is_some());
    drop(overdrawn);
    assert_eq!((budget.held_bytes(), budget.figures()[0].overdrawn_bytes), (0, 0));
}

#[test]
fn sums_do_not_wrap() {
    let budget = Budget::new(usize::MAX);
    let client = budget.client("all", usize::MAX, Backing::System);
    let _one = client.reserve(1).expect("in budget");
    assert!(client.try_reserve(usize::MAX).is_none());
    assert!(client.try_reserve(usize::MAX - 1).is_some());
}

/// Many threads grow and shrink at once: an independent count of what was granted is never above the total.
#[test]
fn threads_never_hold_more_than_the_total() {
    const TOTAL: usize = 1000;
    let budget = Budget::new(TOTAL);
    let granted = AtomicUsize::new(0);
    let refused = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8_usize {
            let client = budget.client("a thread", 400, Backing::System);
            let (granted, refused) = (&granted, &refused);
            scope.spawn(move || {
                let mut held = client.reserve(0).expect("nothing");
                for step in 0..20_000_usize {
                    let bytes = (step * 7919 + thread * 104_729) % 300;
                    if step % 3 == 2 {
                        let bytes = bytes.min(held.bytes());
                        // Counted as gone before it is, and as there after it is: never too high.
                        granted.fetch_sub(bytes, Ordering::SeqCst);
                        held.shrink(bytes);
                    } else if held.try_grow(bytes) {
                        let sum = granted.fetch_add(bytes, Ordering::SeqCst) + bytes;
                        assert!(sum <= TOTAL, "{sum} of {TOTAL}");
                    } else {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
                granted.fetch_sub(held.bytes(), Ordering::SeqCst);
            });
        }
    });
    assert!(refused.into_inner() > 0, "the total was never reached");
    assert_eq!((budget.held_bytes(), granted.into_inner()), (0, 0));
    assert!(budget.figures().iter().all(|client| client.held_bytes == 0 && client.peak_bytes <= 400));
}

proptest! {
    /// Beside a plain model: a list of what each reservation holds.
    #[test]
    fn it_counts_as_a_list_does(
        total in 0..2000_usize,
        limits in proptest::collection::vec(0..1500_usize, 1..4),
        steps in proptest::collection::vec((0..5_u8, any::<usize>(), 0..700_usize), 1..200),
    ) {
        let budget = Budget::new(total);
        let clients: Vec<_> = limits.iter().map(|limit| budget.client("a client", *limit, Backing::System)).collect();
        let mut held: Vec<(usize, Reservation)> = Vec::new();
        for (action, at, bytes) in steps {
            let of = |held: &[(usize, Reservation)], client: usize| -> usize {
                held.iter().filter(|(owner, _)| *owner == client).map(|(_, reservation)| reservation.bytes()).sum()
            };
            let all: usize = held.iter().map(|(_, reservation)| reservation.bytes()).sum();
            let client = at % clients.len();
            let fits =
                |client: usize| bytes == 0 || (of(&held, client) + bytes <= limits[client] && all + bytes <= total);
            match action {
                0 => {
                    let expected = fits(client);
                    let reservation = clients[client].try_reserve(bytes);
                    prop_assert_eq!(reservation.is_some(), expected);
                    held.extend(reservation.map(|reservation| (client, reservation)));
                }
                1 if !held.is_empty() => {
                    let position = at % held.len();
                    let expected = fits(held[position].0);
                    prop_assert_eq!(held[position].1.try_grow(bytes), expected);
                }
                2 if !held.is_empty() => {
                    let position = at % held.len();
                    let reservation = &mut held[position].1;
                    reservation.shrink(bytes.min(reservation.bytes()));
                }
                3 => held.push((client, clients[client].overdraw(bytes / 10))),
                _ if !held.is_empty() => drop(held.swap_remove(at % held.len())),
                _ => {}
            }
            let sum: usize = held.iter().map(|(_, reservation)| reservation.bytes()).sum();
            prop_assert_eq!(budget.held_bytes(), sum);
            for (client, figures) in budget.figures().iter().enumerate() {
                prop_assert_eq!(figures.held_bytes, of(&held, client));
                prop_assert!(figures.overdrawn_bytes <= figures.held_bytes && figures.held_bytes <= figures.peak_bytes);
            }
        }
        drop(held);
        prop_assert_eq!(budget.held_bytes(), 0);
    }
}

/// Gives back all that it is asked for, as long as it has something.
struct Kept(Mutex<Reservation>);

impl GivesBack for Kept {
    fn give_back(&self, bytes: usize) -> bool {
        let mut held = self.0.lock().expect("no panic");
        let given = bytes.min(held.bytes());
        held.shrink(given);
        given > 0
    }
}

#[test]
fn others_give_back_what_is_needed() {
    let budget = Budget::new(100);
    let [chunks, queries] = ["chunks", "queries"].map(|name| budget.client(name, 80, Backing::System));
    let kept = Arc::new(Kept(Mutex::new(chunks.reserve(80).expect("in budget"))));
    let giver: Weak<Kept> = Arc::downgrade(&kept);
    budget.takes_from(giver);
    assert!(queries.try_reserve(30).is_none(), "nobody is asked");
    let mut held = queries.reserve(30).expect("others give back");
    assert_eq!((chunks.held_bytes(), queries.held_bytes()), (70, 30));
    assert!(held.grow(51).is_err(), "its own limit");
    assert_eq!(chunks.held_bytes(), 70, "where that does not help nobody is asked");
    held.grow(50).expect("others give back");
    assert_eq!((chunks.held_bytes(), budget.held_bytes()), (20, 100));
    held.require(10);
    assert_eq!((budget.held_bytes(), budget.figures()[1].overdrawn_bytes), (110, 10));
}

#[test]
fn a_statement_is_in_what_it_is_part_of() {
    let budget = Budget::new(100 << 20);
    let queries = budget.client("queries", 60 << 20, Backing::Heap);
    let statement = queries.part(Tier::Query, "SELECT 1");
    let sort = statement.part(Tier::Operator, "sort");
    let mut held = sort.reserve(40 << 20).expect("in budget");
    let tiers: Vec<_> = budget.figures().iter().map(|figures| (figures.tier, figures.held_bytes >> 20)).collect();
    assert_eq!(tiers, [(Tier::Process, 40), (Tier::Query, 40), (Tier::Operator, 40)]);
    assert_eq!(budget.figures()[2].part_of.as_deref(), Some("SELECT 1"));
    let error = held.grow(30 << 20).expect_err("more than queries may have").to_string();
    assert!(error.contains("wanted for sort, where there may be 60.0 MiB"), "{error}");
    assert!(error.contains("hold SELECT 1 40.0 MiB"), "{error}");
    drop((statement, sort));
    assert_eq!(budget.figures().len(), 3, "as long as something is held");
    drop(held);
    assert_eq!((budget.figures().len(), budget.held_bytes()), (1, 0));
}

#[test]
fn what_is_set_aside_is_there_when_it_is_needed() {
    let budget = Budget::new(1000);
    let (queries, chunks) =
        (budget.client("queries", 600, Backing::System), budget.client("chunks", 1000, Backing::System));
    let joins = |name| queries.part(Tier::Query, name).part(Tier::Operator, "joins");
    let (first, second, third) = (joins("a"), joins("b"), joins("c"));
    assert_eq!(first.set_share_aside(0, usize::MAX), 400, "two thirds for one alone");
    assert_eq!(second.set_share_aside(0, usize::MAX), 133, "a third, but no more than two thirds of what is left");
    assert_eq!((third.share_bytes(), third.set_share_aside(0, 20)), (44, 20));
    assert_eq!(budget.held_bytes(), 0);
    let others = chunks.reserve(1000).expect("nobody holds any");
    assert!(first.try_reserve(1).is_none() && third.try_reserve(1).is_none());
    drop(others);
    let mut held = first.reserve(300).expect("set aside");
    assert!(third.try_reserve(21).is_none(), "more than its share");
    first.set_rest_free();
    assert_eq!(third.share_bytes(), 111, "two thirds of what is free");
    assert!(!held.try_grow(101), "more than its share");
    drop((first, held));
    assert_eq!(third.share_bytes(), 200, "a third of all");
    assert_eq!(third.set_share_aside(700, 650), 650, "at least so many, whatever others have");
    assert!(second.try_reserve(133).is_some() && third.try_reserve(600).is_some());
}

#[test]
fn the_allocator_keeps_what_is_given_back() {
    let budget = Budget::new(100);
    let (queries, chunks) =
        (budget.client("queries", 100, Backing::Heap), budget.client("chunks", 100, Backing::System));
    drop(queries.reserve(70).expect("in budget"));
    assert_eq!((budget.held_bytes(), budget.kept_bytes()), (0, 70));
    assert!(chunks.try_reserve(31).is_none());
    let held = chunks.reserve(30).expect("what the allocator does not have");
    let again = queries.reserve(70).expect("the allocator has it");
    drop(again);
    assert_eq!(budget.forget_kept(), 0, "it was held in this while");
    let small = queries.reserve(10).expect("in budget");
    assert_eq!((budget.kept_bytes(), budget.forget_kept(), budget.kept_bytes()), (60, 60, 0));
    assert!(chunks.try_reserve(60).is_some());
    drop((held, small));
}

#[test]
fn following_is_in_steps() {
    const STEP: usize = limits::RESERVED_STEP_BYTES;
    let budget = Budget::new(20 * STEP);
    let mut held = budget.client("joins", 20 * STEP, Backing::System).nothing();
    for bytes in 1..1000 {
        assert!(held.follow(bytes) && held.bytes() == STEP);
    }
    assert!(held.follow(10 * STEP) && held.bytes() == 11 * STEP);
    assert!(held.follow(9 * STEP) && held.bytes() == 11 * STEP, "it may grow again");
    assert!(held.follow(STEP) && held.bytes() == 2 * STEP);
    assert!(held.follow(20 * STEP - 1) && held.bytes() == 20 * STEP - 1, "to the last byte");
    assert!(!held.follow(21 * STEP) && held.bytes() == 20 * STEP - 1);
    held.follow_in_any_case(21 * STEP);
    assert_eq!((held.bytes(), budget.held_bytes()), (21 * STEP, 21 * STEP));
    assert!(held.follow(0) && held.bytes() == 0);
}

/// A client of the twin: its parent, its limit, what is set aside for it and what it holds itself.
#[derive(Debug, Clone, Copy)]
struct Twin {
    above: Option<usize>,
    limit: usize,
    aside: usize,
    own: usize,
}

/// What a client and those below it claim, counted anew.
fn claimed(twins: &[Twin], index: usize) -> usize {
    let below = (0..twins.len()).filter(|below| twins[*below].above == Some(index));
    twins[index].own.max(twins[index].aside) + below.map(|below| claimed(twins, below)).sum::<usize>()
}

/// Whether a client and those above it claim no more than they may.
fn is_allowed(twins: &[Twin], index: usize) -> bool {
    let mut path = std::iter::successors(Some(index), |index| twins[*index].above);
    path.all(|index| claimed(twins, index) <= twins[index].limit)
}

proptest! {
    /// Beside a plain model, which counts all of the tree anew for every question.
    #[test]
    fn a_tree_counts_as_its_twin_does(
        total in 0..2000_usize,
        above in proptest::collection::vec((0..4_usize, 0..1500_usize), 1..6),
        steps in proptest::collection::vec((0..4_u8, any::<usize>(), 0..700_usize), 1..200),
    ) {
        let budget = Budget::new(total);
        let top = budget.client("top", 1200, Backing::System);
        let (mut clients, mut twins) = (vec![top], vec![Twin { above: None, limit: 1200, aside: 0, own: 0 }]);
        for (place, _) in above {
            let above = place % clients.len();
            clients.push(clients[above].part(Tier::Operator, "part"));
            twins.push(Twin { above: Some(above), limit: usize::MAX, aside: 0, own: 0 });
        }
        let mut held: Vec<Reservation> = clients.iter().map(Client::nothing).collect();
        for (action, at, bytes) in steps {
            let index = at % clients.len();
            let mut changed = twins.clone();
            match action {
                0 | 1 => {
                    changed[index].own += bytes;
                    let is_granted = held[index].try_grow(bytes);
                    // What is beyond a limit already is no matter of who claims nothing more.
                    let claims_more = changed[index].own > twins[index].aside.max(twins[index].own);
                    let is_within = changed.iter().map(|twin| twin.own).sum::<usize>() <= total;
                    prop_assert_eq!(is_granted, bytes == 0 || (is_within && (!claims_more || is_allowed(&changed, index))));
                    if is_granted {
                        twins = changed;
                    }
                }
                2 => {
                    let bytes = bytes.min(held[index].bytes());
                    held[index].shrink(bytes);
                    twins[index].own -= bytes;
                }
                _ => {
                    let share = clients[index].set_share_aside(0, bytes);
                    prop_assert!(share <= bytes);
                    (twins[index].aside, twins[index].limit) = (share, share);
                    if at % 2 == 0 {
                        clients[index].set_rest_free();
                        twins[index].aside = 0;
                    }
                }
            }
            prop_assert_eq!(budget.held_bytes(), twins.iter().map(|twin| twin.own).sum::<usize>());
            for (client, figures) in budget.figures().iter().enumerate() {
                prop_assert!(figures.held_bytes <= figures.peak_bytes, "{}", client);
            }
        }
        drop((held, clients));
        prop_assert_eq!(budget.held_bytes(), 0);
    }
}
