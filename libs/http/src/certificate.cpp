#include "qm/http/certificate.hpp"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <ctime>
#include <memory>

namespace qm::http {
namespace {

template <class T, void (*Free)(T*)>
struct Freeing {
  void operator()(T* value) const { Free(value); }
};
using Key = std::unique_ptr<EVP_PKEY, Freeing<EVP_PKEY, EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freeing<X509, X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freeing<X509_EXTENSION, X509_EXTENSION_free>>;
using Bytes = std::unique_ptr<BIO, Freeing<BIO, BIO_free_all>>;

tl::unexpected<Error> failed(std::string_view what) {
  const auto code = ERR_get_error();
  ERR_clear_error();
  std::array<char, 256> text{};
  ERR_error_string_n(code, text.data(), text.size());
  return fail(Code::kInvalid, "{}: {}", what, code == 0 ? "not readable" : text.data());
}

Bytes reader(const std::string& pem) { return Bytes(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

std::string written(const Bytes& bio) {
  char* data = nullptr;
  const auto size = BIO_get_mem_data(bio.get(), &data);
  return size > 0 ? std::string(data, static_cast<std::size_t>(size)) : std::string();
}

Certificate certificate_of(const std::string& pem) {
  return Certificate(PEM_read_bio_X509(reader(pem).get(), nullptr, nullptr, nullptr));
}

Key key_of(const std::string& pem) {
  return Key(PEM_read_bio_PrivateKey(reader(pem).get(), nullptr, nullptr, nullptr));
}

bool is_address(const std::string& name) {
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  return inet_pton(AF_INET, name.c_str(), bytes.data()) == 1 || inet_pton(AF_INET6, name.c_str(), bytes.data()) == 1;
}

/// A name in an extension's text must not contain the separators of that text.
bool is_name(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == ':' || c == '*';
  });
}

bool extend(X509* certificate, X509* issuer, int what, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension made(X509V3_EXT_conf_nid(nullptr, &context, what, value.c_str()));
  return made && X509_add_ext(certificate, made.get(), -1) == 1;
}

bool set_time(ASN1_TIME* at, WallTime t) { return ASN1_TIME_set(at, t.time_since_epoch().count()) != nullptr; }

bool set_serial(X509* certificate) {
  std::array<unsigned char, 16> random{};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) return false;
  random[0] &= 0x7f;  // positive
  BIGNUM* number = BN_bin2bn(random.data(), static_cast<int>(random.size()), nullptr);
  const bool done = number != nullptr && BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nullptr;
  BN_free(number);
  return done;
}

Result<Identity> make(const CertificateTerms& terms, const Identity* issuer) {
  if (terms.until <= terms.from) return fail(Code::kInvalid, "a certificate that ends before it begins");
  std::string names;
  for (const auto& name : terms.names) {
    if (!is_name(name)) {
      return fail(Error{Code::kInvalid, fmt::format("'{}' is neither a host name nor an address", name), "names",
                        "give names such as webhook.example.svc, or numeric addresses"});
    }
    names += fmt::format("{}{}:{}", names.empty() ? "" : ",", is_address(name) ? "IP" : "DNS", name);
  }
  for (const auto& uri : terms.uris) {
    if (uri.empty() || uri.find_first_of(", \t\r\n") != std::string::npos)
      return fail(
          Error{Code::kInvalid, fmt::format("'{}' is not a URI", uri), "uris", "write it without spaces or commas"});
    names += fmt::format("{}URI:{}", names.empty() ? "" : ",", uri);
  }
  const Key key(EVP_EC_gen("P-256"));
  const Certificate made(X509_new());
  if (!key || !made) return failed("no key");
  X509_set_version(made.get(), 2);
  bool ok = set_serial(made.get()) && set_time(X509_getm_notBefore(made.get()), terms.from) &&
            set_time(X509_getm_notAfter(made.get()), terms.until) && X509_set_pubkey(made.get(), key.get()) == 1;
  auto* subject = X509_get_subject_name(made.get());
  // A common name has at most 64 characters; clients no longer match by it.
  const auto common = terms.common_name.substr(0, 64);
  ok = ok &&
       X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(common.data()),
                                  static_cast<int>(common.size()), -1, 0) == 1;
  Certificate parent;
  Key parent_key;
  if (issuer != nullptr) {
    parent = certificate_of(issuer->certificate);
    parent_key = key_of(issuer->key);
    if (!parent || !parent_key) return failed("the issuer cannot be read");
  }
  auto* signer = parent ? parent.get() : made.get();
  ok = ok && X509_set_issuer_name(made.get(), X509_get_subject_name(signer)) == 1 &&
       extend(made.get(), signer, NID_subject_key_identifier, "hash") &&
       extend(made.get(), signer, NID_authority_key_identifier, "keyid");
  if (issuer == nullptr) {
    ok = ok && extend(made.get(), signer, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
         extend(made.get(), signer, NID_key_usage, "critical,keyCertSign,cRLSign");
  } else {
    ok = ok && extend(made.get(), signer, NID_basic_constraints, "critical,CA:FALSE") &&
         extend(made.get(), signer, NID_key_usage, "critical,digitalSignature") &&
         extend(made.get(), signer, NID_ext_key_usage, terms.client ? "serverAuth,clientAuth" : "serverAuth") &&
         (names.empty() || extend(made.get(), signer, NID_subject_alt_name, names));
  }
  ok = ok && X509_sign(made.get(), parent_key ? parent_key.get() : key.get(), EVP_sha256()) > 0;
  const Bytes certificate_text(BIO_new(BIO_s_mem())), key_text(BIO_new(BIO_s_mem()));
  ok = ok && PEM_write_bio_X509(certificate_text.get(), made.get()) == 1 &&
       PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1;
  if (!ok) return failed("the certificate cannot be created");
  return Identity{written(certificate_text), written(key_text)};
}

WallTime time_of(const ASN1_TIME* at) {
  std::tm parts{};
  ASN1_TIME_to_tm(at, &parts);
  return WallTime(std::chrono::seconds(timegm(&parts)));
}

std::string address_of(const ASN1_OCTET_STRING* bytes) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const int family = ASN1_STRING_length(bytes) == 4 ? AF_INET : AF_INET6;
  const auto* at = inet_ntop(family, ASN1_STRING_get0_data(bytes), text.data(), text.size());
  return at == nullptr ? std::string() : std::string(at);
}

}  // namespace

Result<Identity> make_authority(const CertificateTerms& terms) { return make(terms, nullptr); }

Result<Identity> make_certificate(const CertificateTerms& terms, const Identity& issuer) {
  return make(terms, &issuer);
}

Result<CertificateFacts> read_certificate(const std::string& pem) {
  const auto certificate = certificate_of(pem);
  if (!certificate) return failed("the certificate cannot be read");
  CertificateFacts out;
  std::array<char, 256> common{};
  if (X509_NAME_get_text_by_NID(X509_get_subject_name(certificate.get()), NID_commonName, common.data(),
                                static_cast<int>(common.size())) > 0) {
    out.common_name = common.data();
  }
  out.from = time_of(X509_get0_notBefore(certificate.get()));
  out.until = time_of(X509_get0_notAfter(certificate.get()));
  out.authority = X509_check_ca(certificate.get()) > 0;
  const std::unique_ptr<GENERAL_NAMES, Freeing<GENERAL_NAMES, GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate.get(), NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    const auto* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type == GEN_DNS) {
      out.names.emplace_back(reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName)),
                             static_cast<std::size_t>(ASN1_STRING_length(name->d.dNSName)));
    } else if (name->type == GEN_IPADD) {
      out.names.push_back(address_of(name->d.iPAddress));
    }
  }
  std::ranges::sort(out.names);
  return out;
}

bool signed_by(const std::string& pem, const std::string& authority) {
  const auto certificate = certificate_of(pem);
  const auto issuer = certificate_of(authority);
  const bool yes = certificate && issuer && X509_verify(certificate.get(), X509_get0_pubkey(issuer.get())) == 1;
  ERR_clear_error();
  return yes;
}

bool belongs(const Identity& identity) {
  const auto certificate = certificate_of(identity.certificate);
  const auto key = key_of(identity.key);
  const bool yes = certificate && key && X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  return yes;
}

std::vector<std::string> split_certificates(const std::string& pem) {
  static constexpr std::string_view kBegin = "-----BEGIN CERTIFICATE-----", kEnd = "-----END CERTIFICATE-----";
  std::vector<std::string> out;
  for (auto at = pem.find(kBegin); at != std::string::npos; at = pem.find(kBegin, at)) {
    const auto end = pem.find(kEnd, at);
    if (end == std::string::npos) break;
    out.push_back(pem.substr(at, end + kEnd.size() - at) + "\n");
    at = end;
  }
  return out;
}

}  // namespace qm::http
