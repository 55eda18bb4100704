//! Policies made ready for questions: those of a sandbox, of its account and of the service, all of
//! which must permit.

use std::net::IpAddr;

use super::{EgressPolicy, HostName, Mode, Rule};

/// The policies of one sandbox: its own, and its account's that it cannot exceed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policies {
    /// Chosen at create, changed live.
    pub own: EgressPolicy,
    /// The account's.
    pub ceiling: Option<EgressPolicy>,
}

/// Policies made ready for questions.
#[derive(Debug)]
pub struct Compiled {
    layers: Vec<Layer>,
}

#[derive(Debug)]
struct Layer {
    /// Whose it is, in front of a refusal's text.
    label: &'static str,
    policy: EgressPolicy,
}

/// May this be reached?
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The address that is dialled.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// The names for which this sandbox was given this address.
    pub names: &'a [HostName],
    /// The name that the client asks for inside the connection, once it has.
    pub claim: Option<&'a HostName>,
}

/// What may be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The name by which it may; without, by its address alone.
    pub by_name: Option<HostName>,
    /// Whether a name inside the connection can still change this.
    pub wants_claim: bool,
}

/// What may not be reached, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// For the denial log.
    pub rule: String,
    /// Whether a name inside the connection can still change this.
    pub wants_claim: bool,
}

impl Compiled {
    /// Of a sandbox's policies and the service's deny list.
    #[must_use]
    pub fn new(policies: &Policies, service_deny: &[Rule]) -> Self {
        let mut layers = Vec::new();
        if !service_deny.is_empty() {
            let policy = EgressPolicy { deny: service_deny.to_vec(), ..EgressPolicy::open() };
            layers.push(Layer { label: "service: ", policy });
        }
        if let Some(ceiling) = &policies.ceiling {
            layers.push(Layer { label: "account limit: ", policy: ceiling.clone() });
        }
        layers.push(Layer { label: "", policy: policies.own.clone() });
        Self { layers }
    }

    /// Whether a name may be resolved: nobody denies it for all ports, and something of it may be
    /// reached.
    ///
    /// # Errors
    /// Why not.
    pub fn resolve(&self, name: &HostName) -> Result<(), Refusal> {
        for layer in &self.layers {
            let policy = &layer.policy;
            let denied = |rule: &&Rule| rule.ports.is_none() && rule.covers_name(name);
            if policy.mode == Mode::None {
                return Err(layer.off());
            }
            if let Some(rule) = policy.deny.iter().find(denied) {
                return Err(layer.denied(rule, false));
            }
            if policy.mode == Mode::Allow && !policy.allow.iter().any(|rule| rule.covers_name(name))
            {
                return Err(layer.not_listed());
            }
        }
        Ok(())
    }

    /// Whether a permitted name may be another name for this one: nobody denies it for all ports.
    ///
    /// # Errors
    /// Why not.
    pub fn alias(&self, name: &HostName) -> Result<(), Refusal> {
        self.undenied(|rule| rule.covers_name(name))
    }

    /// Whether a permitted name may be told this address: nobody denies it for all ports.
    ///
    /// # Errors
    /// Why not.
    pub fn tell(&self, address: IpAddr) -> Result<(), Refusal> {
        self.undenied(|rule| rule.covers_address(address))
    }

    /// Whether the names of an address may be asked for: it was `told`, or may be reached by itself.
    ///
    /// # Errors
    /// Why not.
    pub fn reverse(&self, address: IpAddr, told: bool) -> Result<(), Refusal> {
        self.tell(address)?;
        let lists = |rule: &Rule| rule.covers_address(address);
        for layer in &self.layers {
            match layer.policy.mode {
                Mode::None => return Err(layer.off()),
                Mode::Allow if !told && !layer.policy.allow.iter().any(lists) => {
                    return Err(layer.not_listed());
                }
                Mode::Allow | Mode::Open => {}
            }
        }
        Ok(())
    }

    fn undenied(&self, covers: impl Fn(&Rule) -> bool) -> Result<(), Refusal> {
        let denied = |rule: &&Rule| rule.ports.is_none() && covers(rule);
        let found =
            |layer: &Layer| Some(layer.denied(layer.policy.deny.iter().find(denied)?, false));
        self.layers.iter().find_map(found).map_or(Ok(()), Err)
    }

    /// Whether an address may be reached, by what is known so far. What no rule can open is asked
    /// before this.
    ///
    /// # Errors
    /// Why not.
    pub fn judge(&self, question: &Question<'_>) -> Result<Verdict, Refusal> {
        let mut by_name = Vec::new();
        let mut wants_claim = false;
        for layer in &self.layers {
            let policy = &layer.policy;
            if policy.mode == Mode::None {
                return Err(layer.off());
            }
            layer.judge_denied(question)?;
            let at_port = |rule: &&Rule| rule.covers_port(question.port);
            wants_claim |= policy.deny.iter().filter(at_port).any(|rule| !rule.is_net());
            let by_address = |rule: &Rule| rule.covers_address(question.address);
            let open = policy.mode == Mode::Open;
            if !open && !policy.allow.iter().filter(at_port).any(by_address) {
                by_name.push(layer);
            }
        }
        if by_name.is_empty() {
            let wants_claim = wants_claim && question.claim.is_none();
            return Ok(Verdict { by_name: None, wants_claim });
        }
        let name = Self::name_for(&by_name, question)?;
        Ok(Verdict { by_name: Some(name), wants_claim: question.claim.is_none() })
    }

    /// The name that all these layers list for this port.
    fn name_for(layers: &[&Layer], question: &Question<'_>) -> Result<HostName, Refusal> {
        let candidates = match question.claim {
            Some(claim) if question.names.contains(claim) => std::slice::from_ref(claim),
            Some(claim) => {
                let rule =
                    format!("the client asks for {claim}, which this address is not known for");
                return Err(Refusal { rule, wants_claim: false });
            }
            None => question.names,
        };
        let lists = |layer: &Layer, name: &HostName| {
            let covers = |rule: &Rule| rule.covers_port(question.port) && rule.covers_name(name);
            layer.policy.allow.iter().any(covers)
        };
        let all = |name: &&HostName| layers.iter().all(|layer| lists(layer, name));
        if let Some(name) = candidates.iter().find(all) {
            return Ok(name.clone());
        }
        let none = |layer: &&&Layer| !candidates.iter().any(|name| lists(layer, name));
        let layer = layers.iter().find(none).or(layers.last());
        Err(layer.map_or_else(Refusal::nobody, |layer| layer.not_listed()))
    }
}

impl Layer {
    /// Refuses by a rule of `deny`. A client that has not said whom it wants is judged by all names
    /// of the address; one that asks for one of them, by that one alone.
    fn judge_denied(&self, question: &Question<'_>) -> Result<(), Refusal> {
        let mut rules = self.policy.deny.iter().filter(|rule| rule.covers_port(question.port));
        let (named, others): (&[HostName], &[HostName]) = match question.claim {
            Some(claim) if question.names.contains(claim) => (std::slice::from_ref(claim), &[]),
            Some(claim) => (std::slice::from_ref(claim), question.names),
            None => (&[], question.names),
        };
        let covers = |rule: &Rule| {
            rule.covers_address(question.address)
                || named.iter().chain(others).any(|name| rule.covers_name(name))
        };
        let Some(rule) = rules.find(|rule| covers(rule)) else { return Ok(()) };
        let spared = |name: &HostName| {
            !self.policy.deny.iter().any(|rule| {
                rule.covers_port(question.port)
                    && (rule.covers_name(name) || rule.covers_address(question.address))
            })
        };
        let wants_claim = question.claim.is_none() && question.names.iter().any(spared);
        Err(self.denied(rule, wants_claim))
    }

    fn off(&self) -> Refusal {
        Refusal { rule: format!("{}the network is off (`none`)", self.label), wants_claim: false }
    }

    fn denied(&self, rule: &Rule, wants_claim: bool) -> Refusal {
        Refusal { rule: format!("{}deny {rule}", self.label), wants_claim }
    }

    fn not_listed(&self) -> Refusal {
        Refusal { rule: format!("{}not in the allow list", self.label), wants_claim: false }
    }
}

impl Refusal {
    /// For what cannot be: a question that no layer answers is refused.
    fn nobody() -> Self {
        Self { rule: "not in the allow list".to_owned(), wants_claim: false }
    }
}
