//! iceoryx2: publish and subscribe without loss; its event service if the receiver is to block.

use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::port::update_connections::UpdateConnections;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::{event, publish_subscribe};

use super::{Outcome, Plan, Receives, Sends, Wait, read, write};

type Messages = publish_subscribe::PortFactory<ipc::Service, [u8], ()>;

struct Out {
    publisher: Publisher<ipc::Service, [u8], ()>,
    notifier: Option<Notifier<ipc::Service>>,
    bytes: usize,
    _node: Node<ipc::Service>,
}

struct Back {
    subscriber: Subscriber<ipc::Service, [u8], ()>,
    listener: Option<Listener<ipc::Service>>,
    wait: Wait,
    _node: Node<ipc::Service>,
}

fn open(plan: &Plan) -> Outcome<(Node<ipc::Service>, Messages, event::PortFactory<ipc::Service>)> {
    set_log_level(LogLevel::Fatal);
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let ends = plan.senders + plan.receivers + 1;
    let messages = node
        .service_builder(&plan.name.as_str().try_into()?)
        .publish_subscribe::<[u8]>()
        .enable_safe_overflow(false)
        .subscriber_max_buffer_size(plan.slots as usize)
        .max_publishers(plan.senders + 1)
        .max_subscribers(plan.receivers + 1)
        .max_nodes(ends)
        .open_or_create()?;
    let event = node
        .service_builder(&format!("{}-event", plan.name).as_str().try_into()?)
        .event()
        .max_notifiers(plan.senders + 1)
        .max_listeners(plan.receivers + 1)
        .max_nodes(ends)
        .open_or_create()?;
    Ok((node, messages, event))
}

pub fn sender(plan: &Plan) -> Outcome<Box<dyn Sends>> {
    let (node, messages, event) = open(plan)?;
    let publisher = messages
        .publisher_builder()
        .initial_max_slice_len(plan.bytes)
        .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
        .create()?;
    let notifier =
        (plan.wait == Wait::Block).then(|| event.notifier_builder().create()).transpose()?;
    Ok(Box::new(Out { publisher, notifier, bytes: plan.bytes, _node: node }))
}

pub fn receiver(plan: &Plan) -> Outcome<Box<dyn Receives>> {
    let (node, messages, event) = open(plan)?;
    let listener =
        (plan.wait == Wait::Block).then(|| event.listener_builder().create()).transpose()?;
    let subscriber = messages.subscriber_builder().create()?;
    Ok(Box::new(Back { subscriber, listener, wait: plan.wait, _node: node }))
}

// Both ends connect when they send and receive. What is sent to a receiver that has not connected
// yet is dropped once its buffer is full.
impl Sends for Out {
    fn connect(&mut self) -> Outcome<()> {
        Ok(self.publisher.update_connections()?)
    }

    fn send(&mut self, number: u64) -> Outcome<()> {
        let mut sample = self.publisher.loan_slice_uninit(self.bytes)?;
        // SAFETY: a message has at least eight bytes.
        unsafe { write(sample.payload_mut().as_mut_ptr().cast(), number) };
        // SAFETY: the receiver reads only those eight bytes.
        unsafe { sample.assume_init() }.send()?;
        if let Some(notifier) = &self.notifier {
            notifier.notify()?;
        }
        Ok(())
    }
}

impl Receives for Back {
    fn connect(&mut self) -> Outcome<()> {
        self.subscriber.has_samples()?;
        Ok(())
    }

    fn receive(&mut self) -> Outcome<u64> {
        loop {
            if let Some(sample) = self.subscriber.receive()? {
                // SAFETY: a message has at least eight bytes.
                return Ok(unsafe { read(sample.payload().as_ptr()) });
            }
            match &self.listener {
                Some(listener) => drop(listener.blocking_wait(|_| {})?),
                None if self.wait == Wait::Yield => std::thread::yield_now(),
                None => {}
            }
        }
    }
}
