//! The embedded adapter.

use punctual::cluster::single::SingleNode;

use super::world::*;

pub async fn open() -> Vec<Replica> {
    let name = "alone".to_owned();
    let cluster = Arc::new(SingleNode::new(name.clone(), SHARDS));
    vec![Replica { name, cluster, clock: Clock::system(), tasks: Tasks::new() }]
}
