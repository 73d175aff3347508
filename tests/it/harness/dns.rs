//! An authoritative name server with scripted answers.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hickory_proto::op::{Message, MessageType, OpCode, Query, ResponseCode};
use hickory_proto::rr::rdata::{A, AAAA, CNAME, SOA};
use hickory_proto::rr::{Name, RData, Record, RecordType};
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

/// One answer in a script.
#[derive(Clone, Debug)]
pub enum Answer {
    /// These addresses and their TTL. A question for one address family gets only that family.
    Addresses(Vec<IpAddr>, u32),
    /// An alias and, as from a resolver, the answer for its target.
    Alias(&'static str, Box<Answer>),
    /// The name does not exist.
    NoName,
    /// Only this response code.
    Code(ResponseCode),
    /// The answer, after a delay.
    Late(Duration, Box<Answer>),
    /// No answer.
    Silence,
}

impl Answer {
    /// Addresses with a TTL of `ttl` seconds.
    pub fn addresses(addresses: &[&str], ttl: u32) -> Self {
        let addresses = addresses.iter().map(|ip| ip.parse().expect("an address")).collect();
        Self::Addresses(addresses, ttl)
    }
}

/// A name server on UDP. It answers that a name without a script does not exist.
pub struct Dns {
    address: SocketAddr,
    scripts: Arc<Mutex<HashMap<Name, Script>>>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct Script {
    answers: Vec<Answer>,
    asked: HashMap<RecordType, usize>,
}

impl Drop for Dns {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Dns {
    /// Starts a name server on a free port.
    pub async fn start() -> Self {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("a free port"));
        let address = socket.local_addr().expect("bound");
        let scripts = Arc::new(Mutex::new(HashMap::<Name, Script>::new()));
        let known = scripts.clone();
        let serving = tokio::spawn(async move {
            let mut buffer = [0; 4_096];
            while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
                let question = Message::from_vec(&buffer[..length]).expect("a DNS message");
                let query = question.queries.first().expect("a question").clone();
                let answer = next_answer(&known, &query);
                let socket = socket.clone();
                tokio::spawn(async move { reply(&socket, client, &question, query, answer).await });
            }
        });
        Self { address, scripts, serving }
    }

    /// Returns the address of the name server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers questions for `name` with `answers`, in their order and separately for each record
    /// type. The last answer is repeated.
    pub fn script(&self, name: &str, answers: impl Into<Vec<Answer>>) {
        let script = Script { answers: answers.into(), asked: HashMap::new() };
        self.scripts.lock().expect("not poisoned").insert(absolute(name), script);
    }

    /// Returns the number of questions for the IPv4 addresses of `name`.
    pub fn asked(&self, name: &str) -> usize {
        let scripts = self.scripts.lock().expect("not poisoned");
        let script = scripts.get(&absolute(name)).expect("a scripted name");
        script.asked.get(&RecordType::A).copied().unwrap_or(0)
    }
}

fn absolute(name: &str) -> Name {
    let mut name = Name::from_ascii(name).expect("a name");
    name.set_fqdn(true);
    name.to_lowercase()
}

fn next_answer(scripts: &Mutex<HashMap<Name, Script>>, query: &Query) -> Answer {
    let mut scripts = scripts.lock().expect("not poisoned");
    let Some(script) = scripts.get_mut(&query.name().to_lowercase()) else {
        return Answer::NoName;
    };
    let asked = script.asked.entry(query.query_type()).or_default();
    *asked += 1;
    script.answers.get(*asked - 1).or(script.answers.last()).cloned().expect("an answer")
}

async fn reply(
    socket: &UdpSocket,
    client: SocketAddr,
    question: &Message,
    query: Query,
    answer: Answer,
) {
    let mut reply = Message::new(question.metadata.id, MessageType::Response, OpCode::Query);
    reply.metadata.authoritative = true;
    reply.metadata.recursion_desired = question.metadata.recursion_desired;
    reply.metadata.recursion_available = true;
    let (name, wanted) = (query.name().clone(), query.query_type());
    reply.add_query(query);
    let mut pending = Some((name, answer));
    while let Some((name, answer)) = pending.take() {
        match answer {
            Answer::Addresses(addresses, ttl) => {
                for address in addresses {
                    let data = match address {
                        IpAddr::V4(address) => RData::A(A(address)),
                        IpAddr::V6(address) => RData::AAAA(AAAA(address)),
                    };
                    if data.record_type() == wanted {
                        reply.add_answer(Record::from_rdata(name.clone(), ttl, data));
                    }
                }
            }
            Answer::Alias(target, answer) => {
                let target = absolute(target);
                let alias = RData::CNAME(CNAME(target.clone()));
                reply.add_answer(Record::from_rdata(name, 0, alias));
                pending = Some((target, *answer));
            }
            Answer::NoName => reply.metadata.response_code = ResponseCode::NXDomain,
            Answer::Code(code) => reply.metadata.response_code = code,
            Answer::Late(pause, answer) => {
                tokio::time::sleep(pause).await;
                pending = Some((name, *answer));
            }
            Answer::Silence => return,
        }
    }
    if reply.answers.is_empty() {
        let zone = absolute("test");
        let soa = SOA::new(zone.clone(), zone.clone(), 1, 60, 60, 60, 0);
        reply.add_authority(Record::from_rdata(zone, 0, RData::SOA(soa)));
    }
    let bytes = reply.to_vec().expect("a short message");
    // The client may have given up and closed its port.
    let _ = socket.send_to(&bytes, client).await;
}
