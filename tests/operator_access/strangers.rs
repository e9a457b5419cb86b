//! Servers that a tenant may lead the operator to by the URL of a database, none of which is his: what is told of them must
//! not tell him what they are. They answer as their kind does and never ask who calls.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

/// What a server may say that a terminal obeys, that turns text around, and that has no end.
pub fn hostile_words() -> String {
    format!("no \u{1b}]0;owned\u{7}\u{202e}entry\u{2066}\u{200b}\r\nERROR forged {}", "x".repeat(900_000))
}

/// How a server deals with one connection.
type Answer = fn(TcpStream) -> std::io::Result<()>;

/// By name: what answers there.
const STRANGERS: [(&str, Answer); 5] = [
    ("silent", silent),
    ("web", web),
    ("without-tls", without_tls),
    ("rude", rude),
    ("welcoming", welcoming),
];

/// Starts all of them; the flags lead their names to them.
pub fn started() -> Vec<String> {
    let rule = |(name, answer): (&str, Answer)| format!("--resolve={}={}", host(name), serve(answer));
    STRANGERS.map(rule).into()
}

/// The host of one.
pub fn host(name: &str) -> String {
    format!("{name}.strangers.svc.cluster.local")
}

fn serve(answer: Answer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A caller that goes away ends it.
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}

fn silent(mut stream: TcpStream) -> std::io::Result<()> {
    stream.read_to_end(&mut Vec::new()).map(drop)
}

fn web(mut stream: TcpStream) -> std::io::Result<()> {
    stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")?;
    silent(stream)
}

fn without_tls(mut stream: TcpStream) -> std::io::Result<()> {
    stream.read_exact(&mut [0; 8])?;
    stream.write_all(b"N")?;
    silent(stream)
}

/// Refuses everybody in words of its own.
fn rude(mut stream: TcpStream) -> std::io::Result<()> {
    startup(&mut stream)?;
    stream.write_all(&refusal("28\u{202e}"))?;
    silent(stream)
}

/// Lets everybody in and refuses what is asked.
fn welcoming(mut stream: TcpStream) -> std::io::Result<()> {
    startup(&mut stream)?;
    let ready = message(b'Z', b"I");
    stream.write_all(&[message(b'R', &[0; 4]), ready.clone()].concat())?;
    loop {
        let mut kind = [0];
        stream.read_exact(&mut kind)?;
        body(&mut stream)?;
        if kind == *b"Q" || kind == *b"S" {
            stream.write_all(&[refusal("\u{1b}[2J"), ready.clone()].concat())?;
        }
    }
}

fn startup(stream: &mut TcpStream) -> std::io::Result<()> {
    body(stream)
}

fn body(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut rest = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap().saturating_sub(4)];
    stream.read_exact(&mut rest)
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&[kind], &length[..], body].concat()
}

fn refusal(state: &str) -> Vec<u8> {
    message(b'E', format!("SFATAL\0C{state}\0M{}\0\0", hostile_words()).as_bytes())
}
