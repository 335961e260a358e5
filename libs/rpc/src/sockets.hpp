#pragma once
namespace qm::rpc {

/// Refuses new connections to this local port from now on; existing ones stay. gRPC itself can stop listening only
/// together with serving.
///
/// Threads  any. Cost: one check of every file descriptor of the process.
void stop_listening(int port);

/// Whether this local port has any connection.
///
/// Threads  any. Cost: as above.
[[nodiscard]] bool any_connected(int port);

}  // namespace qm::rpc
