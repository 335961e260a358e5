#pragma once
#include <string>

namespace qm::bench {

/// From one service's mailbox to another service's commit: host, outbox, relay, bus, consumer, host. Both hosts store
/// their rows in the PostgreSQL of `conninfo` and run in this process, as they would in two.
///
/// Events a second, from the first submission until the second host has committed the last event. Each event is a
/// state row, a journaled input, an outbox row and a newest-version row on one side, and a state row, a journaled
/// input, an inbox version and a cursor on the other.
void pipeline(const std::string& setting, const std::string& conninfo);

/// At `rate` inputs a second, on a fixed schedule: from the commit of the event to the commit of its effect, and from
/// the instant when the input was due to the same commit.
void effect(const std::string& setting, int rate, const std::string& conninfo);

}  // namespace qm::bench
