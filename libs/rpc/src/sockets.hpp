#pragma once
namespace qm::rpc {

/// Whoever connects to this port of ours is refused from now on; those who are connected stay. gRPC stops listening only together with serving.
///
/// Threads  any. Cost: one look at every file descriptor of the process.
void stop_listening(int port);

/// Whether anybody is connected to this port of ours.
///
/// Threads  any. Cost: as above.
[[nodiscard]] bool anybody_connected(int port);

}  // namespace qm::rpc
