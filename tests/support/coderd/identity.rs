//! Who is calling: users, their roles, their tokens, and what the roles of coderd 2.36 let them do here.
//! It never keeps the secret half of a token, only its hash.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};

use super::clock::Timestamp;
use super::ids::Uuid;
use super::reply::Reply;
use super::secrets;
use super::server::Coderd;
use super::state::ServerState;

pub(super) const SESSION_HEADER: &str = "coder-session-token";
const SIGNED_OUT: &str = "You are signed out or your session has expired. Please sign in again to continue.";
const TOKEN_ID_LENGTH: usize = 10;
const TOKEN_SECRET_LENGTH: usize = 22;

/// A role a user holds on top of plain membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Site-wide, may do everything.
    Owner,
    /// Site-wide, may manage templates and provisioner keys but not list provisioner daemons or jobs.
    TemplateAdmin,
    /// All rights inside the named organisation.
    OrganizationAdmin(String),
    /// Templates, keys and daemons inside the named organisation.
    OrganizationTemplateAdmin(String),
}

/// A user's standing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserStatus {
    /// May call.
    Active,
    /// Becomes active by calling.
    Dormant,
    /// Gets 401 whatever the token.
    Suspended,
}

impl UserStatus {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Dormant => "dormant",
            Self::Suspended => "suspended",
        }
    }
}

/// A user to be added: a plain, active member of the default organisation unless told otherwise.
#[derive(Clone, Debug)]
pub struct NewUser {
    username: String,
    roles: Vec<Role>,
    organizations: Vec<String>,
    status: UserStatus,
}

impl NewUser {
    /// A user of that name.
    pub fn named(username: &str) -> Self {
        Self {
            username: username.to_owned(),
            roles: Vec::new(),
            organizations: Vec::new(),
            status: UserStatus::Active,
        }
    }

    /// Gives a role.
    pub fn with(mut self, role: Role) -> Self {
        self.roles.push(role);
        self
    }

    /// Makes the user a member of that organisation (and of no default one, unless also named).
    pub fn member_of(mut self, organization: &str) -> Self {
        self.organizations.push(organization.to_owned());
        self
    }

    /// Sets the standing.
    pub fn status(mut self, status: UserStatus) -> Self {
        self.status = status;
        self
    }
}

#[derive(Clone, Debug)]
pub(super) struct User {
    pub(super) id: Uuid,
    pub(super) username: String,
    pub(super) roles: Vec<Granted>,
    pub(super) organizations: Vec<Uuid>,
    pub(super) status: UserStatus,
    pub(super) created_at: Timestamp,
}

/// A role with its organisation resolved, so that renaming the organisation does not change who may do what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Granted {
    Owner,
    TemplateAdmin,
    OrganizationAdmin(Uuid),
    OrganizationTemplateAdmin(Uuid),
}

impl User {
    pub(super) fn is_owner(&self) -> bool {
        self.roles.contains(&Granted::Owner)
    }

    pub(super) fn may_read_organization(&self, organization: Uuid) -> bool {
        self.is_owner()
            || self.roles.contains(&Granted::TemplateAdmin)
            || self.organizations.contains(&organization)
    }

    /// Create and delete provisioner keys; whoever reads the organisation reads them and their daemons.
    pub(super) fn may_manage_provisioners(&self, organization: Uuid) -> bool {
        self.roles.contains(&Granted::TemplateAdmin) || self.may_read_provisioner_jobs(organization)
    }

    /// What `GET .../provisionerdaemons` asks for; the site-wide template admin does not have it.
    pub(super) fn may_read_provisioner_jobs(&self, organization: Uuid) -> bool {
        let in_organization =
            [Granted::OrganizationAdmin(organization), Granted::OrganizationTemplateAdmin(organization)];
        self.is_owner() || in_organization.iter().any(|role| self.roles.contains(role))
    }
}

#[derive(Debug)]
pub(super) struct Token {
    id: String,
    hashed_secret: Vec<u8>,
    user: Uuid,
    expires_at: Timestamp,
    /// It comes from a database and goes with its row.
    followed: bool,
}

/// A token as a row of `api_keys` has it, with what `users` says of its holder.
#[derive(Clone, Debug)]
pub struct DatabaseToken {
    /// The half that names it.
    pub id: String,
    /// SHA-256 of the other half.
    pub hashed_secret: Vec<u8>,
    /// Its holder, by anything that tells users apart.
    pub user: String,
    /// What the holder may do.
    pub role: Role,
    /// How long it still lives.
    pub lifetime: Duration,
}

/// Why a session token does not open the door.
#[derive(Clone, Debug)]
pub(super) struct Rejected {
    message: String,
    detail: Option<String>,
}

impl Rejected {
    fn signed_out(detail: String) -> Self {
        Self { message: SIGNED_OUT.to_owned(), detail: Some(detail) }
    }

    /// The 401 with the challenge coderd derives from its own text.
    pub(super) fn reply(&self, url: &str) -> Reply {
        // coderd looks for the word in both texts, and one of them is in nearly every refusal.
        let texts = [Some(self.message.as_str()), self.detail.as_deref()];
        let expired = texts.into_iter().flatten().any(|text| text.contains("expired"));
        let description =
            if expired { "The access token has expired" } else { "The access token is invalid" };
        let challenge = format!(
            "Bearer realm=\"coder\", error=\"invalid_token\", error_description=\"{description}\", \
             resource_metadata=\"{url}/.well-known/oauth-protected-resource\""
        );
        let reply = match &self.detail {
            Some(detail) => Reply::detailed(StatusCode::UNAUTHORIZED, &self.message, detail),
            None => Reply::error(StatusCode::UNAUTHORIZED, &self.message),
        };
        reply.with(header::WWW_AUTHENTICATE, &challenge)
    }
}

impl ServerState {
    /// Checks the session token of a request.
    pub(super) fn authenticate(&self, headers: &HeaderMap, now: Timestamp) -> Result<User, Rejected> {
        let presented = headers.get(SESSION_HEADER).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if presented.is_empty() {
            let text = "Cookie \"coder_session_token\" or query parameter must be provided.";
            return Err(Rejected::signed_out(text.to_owned()));
        }
        let (id, secret) = split(presented)
            .map_err(|reason| Rejected::signed_out(format!("Invalid API key format: {reason}")))?;
        let token = self.tokens.iter().find(|token| token.id == id);
        let token = token.ok_or_else(|| Rejected::signed_out("API key is invalid.".to_owned()))?;
        if token.hashed_secret != secrets::hash(secret) {
            return Err(Rejected::signed_out("API key secret is invalid.".to_owned()));
        }
        if token.expires_at < now {
            let when = token.expires_at.go_string();
            return Err(Rejected::signed_out(format!("API key expired at {when:?}.")));
        }
        let holder = token.user;
        let user = self.users.iter().find(|user| user.id == holder).expect("tokens belong to users");
        if user.status == UserStatus::Suspended {
            let text =
                "User is not active (status = \"suspended\"). Contact an admin to reactivate your account.";
            return Err(Rejected { message: text.to_owned(), detail: None });
        }
        // The request itself wakes a dormant user.
        Ok(User { status: UserStatus::Active, ..user.clone() })
    }

    /// Keeps what authentication made of a dormant user.
    pub(super) fn wake(&mut self, caller: &User) {
        self.users
            .iter_mut()
            .filter(|user| user.id == caller.id)
            .for_each(|user| user.status = caller.status);
    }

    /// Deletes a token that the caller may delete: its own, or any as an owner.
    pub(super) fn delete_token(&mut self, id: &str, caller: &User) -> bool {
        let before = self.tokens.len();
        self.tokens.retain(|token| token.id != id || (token.user != caller.id && !caller.is_owner()));
        self.tokens.len() < before
    }

    fn user_mut(&mut self, username: &str) -> &mut User {
        let user = self.users.iter_mut().find(|user| user.username.eq_ignore_ascii_case(username));
        user.unwrap_or_else(|| panic!("the double has no user {username:?}"))
    }

    fn token_mut(&mut self, token: &str) -> &mut Token {
        let id = token.split('-').next().unwrap_or_default();
        self.tokens.iter_mut().find(|known| known.id == id).expect("the double did not issue this token")
    }
}

/// The two halves of a token; the errors are coderd's words.
fn split(token: &str) -> Result<(&str, &str), String> {
    let parts: Vec<&str> = token.split('-').collect();
    let [id, secret] = parts[..] else {
        return Err(format!("incorrect amount of API key parts, expected 2 got {}", parts.len()));
    };
    if id.len() != TOKEN_ID_LENGTH {
        return Err(format!("invalid API key ID length, expected {TOKEN_ID_LENGTH} got {}", id.len()));
    }
    if secret.len() != TOKEN_SECRET_LENGTH {
        return Err(format!(
            "invalid API key secret length, expected {TOKEN_SECRET_LENGTH} got {}",
            secret.len()
        ));
    }
    Ok((id, secret))
}

impl Coderd {
    /// Adds a user and says its id.
    ///
    /// # Panics
    /// If the name is taken or an organisation is unknown.
    pub fn add_user(&self, new: NewUser) -> Uuid {
        let now = self.clock().now();
        let mut state = self.state();
        let taken = state.users.iter().any(|user| user.username.eq_ignore_ascii_case(&new.username));
        assert!(!taken, "the double already has a user {:?}", new.username);
        let mut organizations: Vec<Uuid> =
            new.organizations.iter().map(|name| state.organization_named(name).id).collect();
        let mut roles = Vec::new();
        for role in &new.roles {
            roles.push(match role {
                Role::Owner => Granted::Owner,
                Role::TemplateAdmin => Granted::TemplateAdmin,
                Role::OrganizationAdmin(name) => {
                    Granted::OrganizationAdmin(state.organization_named(name).id)
                }
                Role::OrganizationTemplateAdmin(name) => {
                    Granted::OrganizationTemplateAdmin(state.organization_named(name).id)
                }
            });
            if let Some(Granted::OrganizationAdmin(id) | Granted::OrganizationTemplateAdmin(id)) =
                roles.last()
            {
                organizations.push(*id);
            }
        }
        if organizations.is_empty() {
            organizations.push(state.organization_named("default").id);
        }
        let id = Uuid::random();
        let username = new.username;
        state.users.push(User { id, username, roles, organizations, status: new.status, created_at: now });
        id
    }

    /// Issues a token of that user which lives that long; coderd shows it this once.
    ///
    /// # Panics
    /// If there is no such user.
    pub fn add_token(&self, username: &str, lifetime: Duration) -> String {
        let (id, secret) =
            (secrets::random_string(TOKEN_ID_LENGTH), secrets::random_string(TOKEN_SECRET_LENGTH));
        let expires_at = self.clock().now() + lifetime;
        let mut state = self.state();
        let user = state.user_mut(username).id;
        let hashed_secret = secrets::hash(&secret);
        let token = format!("{id}-{secret}");
        state.tokens.push(Token { id, hashed_secret, user, expires_at, followed: false });
        token
    }

    /// Knows the tokens of a real database, these and no others of the kind: a real coderd would look there.
    pub fn follow_database(&self, rows: &[DatabaseToken]) {
        let known = |name: &str| self.state().users.iter().any(|user| user.username == name);
        for row in rows.iter().filter(|row| !known(&row.user)) {
            self.add_user(NewUser::named(&row.user));
        }
        let now = self.clock().now();
        let mut state = self.state();
        let mut tokens = Vec::new();
        for row in rows {
            let user = state.user_mut(&row.user);
            user.roles = vec![if row.role == Role::Owner { Granted::Owner } else { Granted::TemplateAdmin }];
            tokens.push(Token {
                id: row.id.clone(),
                hashed_secret: row.hashed_secret.clone(),
                user: user.id,
                expires_at: now + row.lifetime,
                followed: true,
            });
        }
        state.tokens.retain(|token| !token.followed);
        state.tokens.extend(tokens);
    }

    /// A day's token of a new user with these roles; no role makes a plain member of the default organisation.
    pub fn token_for(&self, roles: &[Role]) -> String {
        // Tests that share a double make their users at the same time.
        static USERS: AtomicUsize = AtomicUsize::new(1);
        let username = format!("user-{}", USERS.fetch_add(1, Ordering::Relaxed));
        let new = roles.iter().cloned().fold(NewUser::named(&username), NewUser::with);
        self.add_user(new);
        self.add_token(&username, Duration::from_secs(86_400))
    }

    /// Deletes the token: the next call with it is 401.
    pub fn revoke_token(&self, token: &str) {
        let id = token.split('-').next().unwrap_or_default().to_owned();
        self.state().tokens.retain(|known| known.id != id);
    }

    /// Lets the token end now but keeps its row, which coderd words differently.
    ///
    /// # Panics
    /// If the double did not issue this token.
    pub fn expire_token(&self, token: &str) {
        let a_moment_ago = self.clock().now() - Duration::from_secs(1);
        self.state().token_mut(token).expires_at = a_moment_ago;
    }

    /// Changes a user's standing.
    ///
    /// # Panics
    /// If there is no such user.
    pub fn set_user_status(&self, username: &str, status: UserStatus) {
        self.state().user_mut(username).status = status;
    }
}
