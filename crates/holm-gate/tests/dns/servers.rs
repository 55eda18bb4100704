//! Servers that are slow, dead, wrong or long-winded.

use super::client::{World, query, receive};
use super::upstream::{A, Say, Upstream, a, yes};

fn good(asked: &super::upstream::Asked) -> Say {
    match &*asked.name {
        "a.example" => yes(vec![a("a.example", "203.0.113.1")]),
        "b.example" => yes(vec![a("b.example", "203.0.113.2")]),
        _ => Say::Answer(3, vec![], vec![]),
    }
}

#[tokio::test]
async fn the_next_server_is_asked_where_one_does_not_answer() {
    let silent = Upstream::start(|_| Say::Nothing).await;
    let failing = Upstream::start(|_| Say::Answer(2, vec![], vec![])).await;
    let refusing = Upstream::start(|_| Say::Answer(5, vec![], vec![])).await;
    let gone = Upstream::start(|_| Say::Nothing).await;
    let dead = gone.address;
    drop(gone);
    let good = Upstream::start(good).await;
    for bad in [&silent, &failing, &refusing] {
        let world = World::new("open", &[bad, &good]);
        assert_eq!(world.ask("a.example", A).await.addresses().len(), 1);
        // The one that answered is asked first from then on.
        let before = bad.asked().len();
        assert_eq!(world.ask("b.example", A).await.addresses().len(), 1);
        assert_eq!(bad.asked().len(), before);
    }
    let world = World::at("open", vec![dead, good.address]);
    assert_eq!(world.ask("a.example", A).await.addresses().len(), 1);
}

#[tokio::test]
async fn without_any_server_the_answer_is_a_failure() {
    let silent = Upstream::start(|_| Say::Nothing).await;
    let failing = Upstream::start(|_| Say::Answer(2, vec![], vec![])).await;
    let world = World::new("open", &[&silent, &failing]);
    assert_eq!(world.ask("a.example", A).await.rcode, 2);
}

#[tokio::test]
async fn a_truncated_answer_is_asked_for_again_by_stream() {
    const NAME: &str = "a.example";
    let many = || (0..200_u8).map(|last| (NAME, A, 60, vec![203, 0, 113, last])).collect();
    let upstream =
        Upstream::start(move |asked| if asked.tcp { yes(many()) } else { Say::Truncated }).await;
    let world = World::new("open", &[&upstream]);
    let check = |reply: &super::client::Reply, most: usize, truncated: bool| {
        assert!(reply.message.len() <= most, "{}", reply.message.len());
        assert_eq!(reply.truncated, truncated);
        assert!(!reply.addresses().is_empty());
    };
    // What the client takes decides how much of it is told.
    check(&world.send(&query(NAME, A, None)).await, 512, true);
    check(&world.send(&query(NAME, A, Some(1232))).await, 1232, true);
    check(&world.send(&query(NAME, A, Some(4096))).await, 4096, false);
    let ways: Vec<bool> = upstream.asked().iter().map(|asked| asked.tcp).collect();
    assert_eq!(ways, [false, true].repeat(3));
}

#[tokio::test]
async fn too_many_questions_at_once_fail_at_once() {
    let silent = Upstream::start(|_| Say::Nothing).await;
    let world = World::new("open", &[&silent]);
    let client = world.client().await;
    for _ in 0..65 {
        client.send(&query("a.example", A, None)).await.expect("sent");
    }
    // The one too many is answered; those before it still wait.
    assert_eq!(receive(&client).await.rcode, 2);
    assert!(silent.asked().len() <= 64);
    // What is refused is refused all the same.
    assert_eq!(world.ask("a.example", 255).await.rcode, 5);
}
