#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// GPUs that NVIDIA cuts into instances: models, profiles, and which profile is the smallest that will do.
///
/// Threads  any; tables that never change.
/// Cost     a look along a short table, nothing is kept.
namespace qm::catalog::mig {

/// The place of a profile in its geometry: small ones first.
using ProfileId = std::uint8_t;

/// One kind of MIG instance: what it takes of a GPU, and where on the memory axis it may begin.
///
/// Units    compute and memory in slices of the GPU; starts are memory slices.
struct Profile {
  std::string_view shape;  ///< "1g", "1g+me", "1g.2m", "2g", ...: without the memory size, which the model says
  std::int8_t compute = 0, memory = 0;
  std::int8_t most = 0;  ///< instances of it on one GPU
  bool media = false;    ///< with the media extensions, of which a GPU has one set
  std::vector<std::int8_t> starts;
};

/// How a GPU may be cut. A set of instances is legal when their memory does not overlap, each begins where it may, and
/// the limits of compute, of each profile and of the media extensions are kept.
struct Geometry {
  std::int8_t compute_slices = 0, memory_slices = 0;
  std::vector<Profile> profiles;
};

/// GPUs of one family are cut alike; only the names and sizes of the profiles differ.
enum class Family : std::uint8_t {
  kSeven,  ///< A100, H100, H200, B200, GB200, B300: seven compute and eight memory slices
  kFour,   ///< A30, RTX PRO 6000 Blackwell: four and four
};

/// Source   nvidia-smi listings of A100 and H100; for the other models by profile counts alone. NVIDIA's mock tables for
///          H100 and later have simplified placements, which real listings contradict.
const Geometry& geometry_of(Family family);

/// A family's profiles by their place in it.
namespace seven {
inline constexpr ProfileId k1g = 0, k1gMedia = 1, k1gDouble = 2, k2g = 3, k3g = 4, k4g = 5, k7g = 6;
inline constexpr std::size_t kProfiles = 7;
}  // namespace seven
namespace four {
inline constexpr ProfileId k1g = 0, k1gMedia = 1, k2g = 2, k2gMedia = 3, k4g = 4;
}  // namespace four

/// A profile as one model has it.
struct ModelProfile {
  std::string_view name;  ///< "1g.10gb", "1g.10gb+me"; empty where the model has no such profile
  std::int32_t memory_gb = 0;
  std::int32_t sms = 0;  ///< as nvidia-smi reports them; 0 = not known
};

/// A GPU model that can be cut.
struct Model {
  std::string_view name;  ///< "H100-80GB"
  Family family = Family::kSeven;
  std::span<const ModelProfile> profiles;  ///< by ProfileId
};

std::span<const Model> models();

/// The model behind the node label nvidia.com/gpu.product ("NVIDIA-H100-80GB-HBM3", also with what the device plugin adds:
/// "-MIG-1g.10gb", "-SHARED"), behind the catalog's product, or of that very name. Null: a GPU without MIG, or unknown.
const Model* model_of(std::string_view product);

/// The profile by its name, "1g.10gb+me", or as Kubernetes resources have it, "nvidia.com/mig-1g.10gb.me", with or without
/// that prefix. The same name may be another profile on another model: 1g.10gb has one memory slice on an A100-80GB and
/// two on an A100-40GB.
std::optional<ProfileId> profile_of(const Model& model, std::string_view name);

/// The other way: "nvidia.com/mig-1g.10gb.me". Requires that the model has it.
std::string resource_of(const Model& model, ProfileId profile);

/// The smallest profile with at least so much memory and so many SMs, 0 = any; without media extensions. Small is: fewer
/// memory slices, then fewer compute slices. None where nothing is large enough, or SMs are asked of a model whose
/// numbers are not known.
std::optional<ProfileId> smallest_with(const Model& model, std::int32_t memory_gb, std::int32_t sms);

}  // namespace qm::catalog::mig
