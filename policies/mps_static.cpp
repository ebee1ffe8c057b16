// The static partitioning mode of NVIDIA's Multi-Process Service (`nvidia-cuda-mps-control -S`, CUDA 13.1,
// Ampere and newer): the GPU's SMs are cut into chunks, and a client runs on the chunks of its partition and
// nowhere else.  Nobody else runs there, and idle SMs of one partition help no other.  A client without a
// partition cannot start.  All clients share one context, each with channels of its own, as under `mps`.
//
// NVIDIA Multi-Process Service documentation, "Using Static SM Partitioning": chunks, exclusive partitions,
// CUDA_MPS_SM_PARTITION.  A chunk has 8 SMs from compute capability 9.0.  Below that it is taken to be one
// TPC, 2 SMs; drivers have been seen to make chunks of 4 SMs on an A10 and an L40S, for which there is
// `chunk_sms`.
//
// Unverified: no driver here has the mode.  Chosen here: chunks are neighbouring TPCs in the order of their
// numbers, and partitions follow one another in the order of the clients.  A GPU smaller than a chunk is one.
//
// Left out: the SMs that no whole chunk has (4 of an H200's 132) go to nobody, where protocol 3 of MPS can
// add them to a partition; partitions that clients share by intent, and those that come and go during a run.
#include "policies/api/registry.h"
#include "policies/shares.h"

namespace corun {
namespace {

class MpsStatic final : public Policy {
 public:
  explicit MpsStatic(const Parameters& p)
      : text_(p.text("chunks")),
        chunks_(read_shares(text_, 0u, std::uint32_t{kMaxTpcs},
                            [&] {
                              refuse("chunks=" + text_ + " is not a list of numbers of chunks",
                                     "write one for each client, as in 8/8");
                            })),
        chunk_sms_(static_cast<std::uint32_t>(p.number("chunk_sms", 0, 2 * kMaxTpcs))) {}
  std::string_view name() const override { return "mps-static"; }
  Requirements requirements() const override {
    Requirements needed{{Capability::order, Capability::tpc_mask}, Contexts::one, false};
    needed.thread_percentages = {100};
    return needed;
  }

  void start(const Topology& topology, std::span<const ClientView> clients) override {
    const Gpu& gpu = topology.gpu;
    // 0: not told, as of a GPU that is made up.
    if (gpu.compute_capability_major != 0 && gpu.compute_capability_major < 8)
      throw InputError("", "--gpu", gpu.name + " has no static partitions of MPS",
                       "take a GPU of compute capability 8.0 or newer, or mps:percentages");
    const std::uint32_t tpcs = tpcs_of_chunk(gpu), there = gpu.tpcs() / tpcs;
    const auto n = static_cast<std::uint32_t>(clients.size());
    if (!chunks_.empty()) expect_partitions(clients, gpu, there, tpcs * gpu.sms_per_tpc);
    for (std::uint32_t i = 0, next = 0; i < n; ++i) {
      std::uint32_t first = n <= there ? i * there / n : i % there;
      std::uint32_t end = n <= there ? (i + 1) * there / n : first + 1;
      if (!chunks_.empty()) first = next, end = next += chunks_[i];
      partitions_.push_back(TpcMask::range(first * tpcs, end * tpcs));
    }
  }

  void decide(const Snapshot& now, std::vector<Decision>& decisions) override {
    for (LaunchId id : now.pending) {
      decide::Launch launch{id};
      launch.tpc_mask = partitions_[now.launch(id).client.value];
      decisions.emplace_back(std::move(launch));
    }
  }

 private:
  [[noreturn]] static void refuse(const std::string& problem, const std::string& remedy) {
    throw InputError("", "--policy", "mps-static: " + problem, remedy);
  }

  std::uint32_t tpcs_of_chunk(const Gpu& gpu) const {
    if (chunk_sms_ % gpu.sms_per_tpc != 0 || chunk_sms_ > gpu.sms)
      refuse("chunk_sms=" + std::to_string(chunk_sms_) + " cuts no chunk from the " +
                 std::to_string(gpu.sms) + " SMs of " + gpu.name,
             "give a multiple of " + std::to_string(gpu.sms_per_tpc) + ", the SMs of a TPC, up to all");
    if (chunk_sms_ != 0) return chunk_sms_ / gpu.sms_per_tpc;
    return gpu.compute_capability_major >= 9 ? std::min(gpu.tpcs(), 8 / gpu.sms_per_tpc) : 1;
  }

  void expect_partitions(std::span<const ClientView> clients, const Gpu& gpu, std::uint32_t there,
                         std::uint32_t sms) const {
    for (std::size_t i = 0; i < clients.size(); ++i)
      if (const Client& client = *clients[i].client; i >= chunks_.size() || chunks_[i] == 0)
        throw InputError(client.origin.file, client.origin.place,
                         "client " + client.name + " has no partition in mps-static:chunks=" + text_ +
                             ", and MPS in static partitioning mode starts no client without one",
                         "give each client at least one chunk, in their order in the trace, as in 8/8");
    if (chunks_.size() > clients.size())
      refuse("chunks=" + text_ + " has " + std::to_string(chunks_.size()) + " partitions for " +
                 std::to_string(clients.size()) + " clients",
             "give one for each client, in their order in the trace");
    std::uint64_t sum = 0;
    for (const std::uint32_t each : chunks_) sum += each;
    if (sum > there)
      refuse("chunks=" + text_ + " adds up to " + std::to_string(sum) + ", and " + gpu.name + " has " +
                 std::to_string(there) + " of " + std::to_string(sms) + " SMs",
             "give less");
  }

  std::string text_;
  std::vector<std::uint32_t> chunks_;  // by client; empty: equal shares
  std::uint32_t chunk_sms_;            // 0: by the architecture
  std::vector<TpcMask> partitions_;    // by client
};

const Registered mps_static_policy{
    {"mps-static",
     "MPS in static partitioning mode: each client has chunks of SMs, which nobody else uses",
     "NVIDIA Multi-Process Service documentation, \"Using Static SM Partitioning\"",
     {{"chunks",
       "of each client, as 8/8; none: equal shares, and where there are more clients than chunks, one each "
       "in turn",
       ""},
      {"chunk_sms", "SMs of a chunk; 0: 8 from compute capability 9.0, those of a TPC below", "0"}},
     {.no_starvation = true},
     {"static-partitioning", "sm-partition"},
     "no driver here has it"},
    [](const Parameters& p) -> std::unique_ptr<Policy> { return std::make_unique<MpsStatic>(p); }};

}  // namespace
}  // namespace corun
