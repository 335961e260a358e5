#pragma once
#include "qm/base/result.hpp"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

namespace qm::rpc {

/// Where a process finds its own certificate and whom it trusts, as PEM files. They are read again when they change, so
/// that a renewed certificate is used for the next connection; those that are open stay open.
struct TlsFiles {
  std::string certificate, key;  ///< of this process, with its chain; both or none
  std::string ca;                ///< who signs the certificates of others
  [[nodiscard]] bool any() const { return !certificate.empty() || !key.empty() || !ca.empty(); }
  friend bool operator==(const TlsFiles&, const TlsFiles&) = default;
};

/// What a client brings to a connection.
struct ClientSecurity {
  TlsFiles tls;             ///< ca alone = the server proves itself, the client does not
  bool insecure = false;    ///< plain text to other machines too
  std::string token;        ///< bearer token; or
  std::string token_file;   ///< the file that holds it, read anew for each call, as kubelet renews it
  std::string server_name;  ///< the name that the server's certificate must carry, where it is not the address's
};

/// True for 127.0.0.0/8, ::1, localhost and unix sockets: what is said there does not leave the machine.
[[nodiscard]] bool is_loopback(const std::string& address);

/// kInvalid names the file that is missing, cannot be read, or does not fit the others; also where a certificate has
/// expired. `server`: certificate and key are needed too.
Status check_tls(const TlsFiles& files, bool server);

/// A channel with TLS where `security` names a CA, in plain text else. kFailedPrecondition where plain text would leave
/// the machine and `insecure` was not said.
Result<std::shared_ptr<grpc::Channel>> open_channel(const std::string& address, const ClientSecurity& security,
                                                    grpc::ChannelArguments arguments = {});

/// Puts the bearer token into a call. kInvalid where its file cannot be read.
Status add_token(grpc::ClientContext& context, const ClientSecurity& security);

}  // namespace qm::rpc
