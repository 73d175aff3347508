//! Rules that hold for any number of replicas.

use super::world::*;

pub async fn every_shard_is_led_by_one(replicas: &[Replica]) {
    let all: Vec<_> = replicas.iter().collect();
    evenly_led(&all).await;
    let terms: Vec<_> = all.iter().flat_map(|replica| replica.trusted().into_values()).collect();
    assert!(terms.iter().all(|term| term.number > 0));
}

pub async fn members_show_the_leaders_of_shards(replicas: &[Replica]) {
    let all: Vec<_> = replicas.iter().collect();
    evenly_led(&all).await;
    let expected: BTreeMap<_, _> =
        all.iter().map(|replica| (replica.name.clone(), replica.leads())).collect();
    for replica in &all {
        until("all members are known", async || {
            let members = replica.cluster.members().await.ok()?;
            let known = members.into_iter();
            let known: BTreeMap<_, _> =
                known.map(|member| (member.name, member.shards.into_iter().collect())).collect();
            (known == expected).then_some(())
        })
        .await;
    }
}

pub async fn leaving_ends_all_terms(replicas: &[Replica]) {
    let all: Vec<_> = replicas.iter().collect();
    evenly_led(&all).await;
    for replica in &all {
        replica.cluster.leave().await;
        assert!(replica.cluster.terms().borrow().is_empty());
        replica.cluster.leave().await;
    }
}
