#pragma once
#include "qm/base/result.hpp"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace qm::rpc {

/// The certificate of a process and its trusted authority, as PEM files. They are read again when they change, so
/// that new connections use a renewed certificate; open connections stay open.
struct TlsFiles {
  std::string certificate, key;  ///< of this process, with its chain; both or none
  std::string ca;                ///< authority that signs the certificates of the peers
  [[nodiscard]] bool any() const { return !certificate.empty() || !key.empty() || !ca.empty(); }
  friend bool operator==(const TlsFiles&, const TlsFiles&) = default;
};

/// The credentials of a client.
struct ClientSecurity {
  TlsFiles tls;             ///< ca alone = only the server has a certificate, the client has none
  bool insecure = false;    ///< plain text also to other hosts
  std::string token;        ///< bearer token; or
  std::string token_file;   ///< file with the token, read for each call, because the kubelet renews it
  std::string server_name;  ///< required name in the server's certificate, if it is not the address
};

/// True for 127.0.0.0/8, ::1, localhost and unix sockets: such traffic does not leave the host.
[[nodiscard]] bool is_loopback(const std::string& address);

/// kInvalid names the file that is missing, unreadable, or does not match the others; also if a certificate has
/// expired. `server`: certificate and key are required too.
Status check_tls(const TlsFiles& files, bool server);

/// A channel with TLS if `security` names a CA, otherwise in plain text. kFailedPrecondition if plain text would
/// leave the host without `insecure`.
Result<std::shared_ptr<grpc::Channel>> open_channel(const std::string& address, const ClientSecurity& security,
                                                    grpc::ChannelArguments arguments = {});

/// Adds the bearer token to a call. kInvalid if its file cannot be read.
Status add_token(grpc::ClientContext& context, const ClientSecurity& security);

}  // namespace qm::rpc
