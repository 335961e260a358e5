#pragma once
#include "object_store.hpp"
#include "qm/http/http.hpp"
#include "ticker.hpp"
#include "world.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <string>

namespace qm::fleet {

/// The Kubernetes API in JSON over the object store: get, list, watch, create, update, merge-patch,
/// delete, the status subresource, pods/binding, pods/eviction, and enough discovery for kubectl.
///
/// Not served: protobuf, Table output, server-side apply, strategic merge and JSON patches (415),
/// authentication.
/// Threads  handle() on any; an internal thread ends watches after their timeout and sends bookmarks, both in steady
///          time.
class KubeApi {
 public:
  struct Options {
    std::chrono::milliseconds bookmark_every{30'000};
    std::chrono::seconds longest_watch{1800};
  };
  KubeApi(World& world, ObjectStore& store, Options options);
  KubeApi(World& world, ObjectStore& store) : KubeApi(world, store, Options{}) {}
  ~KubeApi() { stop(); }
  [[nodiscard]] http::Answer handle(const http::Request& request);
  /// A fault: ends every open watch without an error event; with `compact` no watch can resume. Returns the number of
  /// watches.
  std::size_t cut_watches(bool compact = false);
  void start();
  void stop();

 private:
  struct Target {
    const Kind* kind = nullptr;
    std::string ns, name, subresource;
  };
  struct OpenWatch {
    std::shared_ptr<http::Stream> stream;
    SteadyInstant ends, bookmark_at;
    bool bookmarks = false;
  };
  using Query = std::map<std::string, std::string>;

  [[nodiscard]] Answered<http::Answer> dispatch(const http::Request& request);
  [[nodiscard]] static Answered<Target> locate(const std::string& path);
  [[nodiscard]] Answered<http::Answer> list(const Target& target, const Selector& selector, const Query& query);
  [[nodiscard]] http::Answer watch(const Target& target, Selector selector, const Query& query);
  [[nodiscard]] Answered<http::Answer> write(const Target& target, const http::Request& request, const Query& query);
  void tick();

  World& world_;
  ObjectStore& store_;
  Options options_;
  std::map<std::uint64_t, OpenWatch> watches_;  // guarded by the world's lock
  Ticker ticker_;
};

}  // namespace qm::fleet
