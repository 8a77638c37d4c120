// The verbs of NCCL ranks, enqueued in the order of the device's work.
#include <fmt/format.h>

#include <utility>

#include "engine/comm/cuda/gpu_memory.h"
#include "engine/comm/nccl/nccl_ranks.h"

namespace engine {
namespace {

ncclDataType_t nccl_type(Element element) {
  switch (element) {
    case Element::f32:
      return ncclFloat32;
    case Element::f64:
      return ncclFloat64;
    case Element::bf16:
      return ncclBfloat16;
    case Element::i32:
      return ncclInt32;
    case Element::u8:
      return ncclUint8;
  }
  fail_expectation("an element is one of five");
}

ncclRedOp_t nccl_reduction(Reduction reduction) {
  return reduction == Reduction::sum ? ncclSum : ncclMax;
}

size_t count_of(ConstPayload data) { return static_cast<size_t>(data.count); }

// The operations of one channel wait for each other. Collectives must not wait for messages that
// nobody asked for yet, nor the messages of a pipeline, whose ranks all send to the next and the
// last to the first, for each other: those to higher and to lower ranks are apart.
struct Channels {
  std::unique_ptr<NcclChannel> all, up, down;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclRanks> ranks, int rank, int size, Channels channels)
      : Communicator(rank, size, ordered_gpu_memory(ranks->device())),
        ranks_(std::move(ranks)),
        channels_(std::move(channels)) {}
  ~NcclCommunicator() override {
    for (auto* channel : {&channels_.all, &channels_.up, &channels_.down})
      ranks_->close(std::move(*channel));
  }

  bool overlaps() const override { return size() > 1; }
  void begin_overlap() override { device_goes_on_ = true; }
  void end_overlap() override {
    if (std::exchange(device_goes_on_, false) && size() > 1)
      ranks_->device().stream().wait_for(channels_.all->done());
  }

 private:
  void do_all_reduce(Payload data, Reduction reduction) override {
    const Staged staged(*this, data, Staged::Kind::both);
    run(*channels_.all, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllReduce(staged.data(), staged.data(), count_of(data), nccl_type(data.element),
                           nccl_reduction(reduction), comm, stream);
    });
    staged.fetch();
  }

  void do_all_gather(ConstPayload shard, Payload whole) override {
    const Staged from(*this, shard), to(*this, whole, Staged::Kind::result);
    run(*channels_.all, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclAllGather(from.data(), to.data(), count_of(shard), nccl_type(shard.element), comm,
                           stream);
    });
    to.fetch();
  }

  void do_reduce_scatter(ConstPayload whole, Payload shard, Reduction reduction) override {
    const Staged from(*this, whole), to(*this, shard, Staged::Kind::result);
    run(*channels_.all, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclReduceScatter(from.data(), to.data(), count_of(shard), nccl_type(shard.element),
                               nccl_reduction(reduction), comm, stream);
    });
    to.fetch();
  }

  void do_broadcast(Payload data, int root) override {
    const Staged staged(*this, data, Staged::Kind::both);
    run(*channels_.all, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclBroadcast(staged.data(), staged.data(), count_of(data), nccl_type(data.element),
                           root, comm, stream);
    });
    staged.fetch();
  }

  // The data are copied where the caller may overwrite or free them in the order of the device's
  // work; the copy is freed in that of the channel. The host does not wait for NCCL, which connects
  // two ranks at their first message: the other may send to this one before it receives.
  void do_send(ConstPayload data, int to) override {
    CudaDevice& device = ranks_->device();
    NcclChannel& channel = to > rank() ? *channels_.up : *channels_.down;
    ranks_->settle(channel);
    void* copy = nullptr;
    check(cudaMallocFromPoolAsync(&copy, static_cast<size_t>(data.bytes()), device.pool(),
                                  device.stream().get()));
    if (memory().is_host(data.data))
      device.copy_to_device(copy, data.data, data.bytes());
    else
      device.copy(copy, data.data, data.bytes());
    device.stream().record(channel.begun());
    channel.stream().wait_for(channel.begun());
    channel.keep_message(copy);
    check(ncclSend(copy, count_of(data), nccl_type(data.element), to, channel.comm(),
                   channel.stream().get()));
  }

  void do_receive(Payload data, int from) override {
    const Staged staged(*this, data, Staged::Kind::result);
    run(from < rank() ? *channels_.up : *channels_.down, [&](ncclComm_t comm, cudaStream_t stream) {
      return ncclRecv(staged.data(), count_of(data), nccl_type(data.element), from, comm, stream);
    });
    staged.fetch();
  }

  void do_barrier() override {
    uint8_t token = 0;
    do_all_reduce({&token, 1, Element::u8}, Reduction::max);
  }

  std::unique_ptr<Communicator> do_split(const std::vector<int>& members, int place) override {
    const bool alone = members.size() == 1;
    Channels group;
    if (size() > 1) {
      group.all = ranks_->split(*channels_.all, alone, members.front(), place);
      group.up = ranks_->split(*channels_.all, alone, members.front(), place);
      group.down = ranks_->split(*channels_.all, alone, members.front(), place);
    }
    return std::make_unique<NcclCommunicator>(ranks_, place, static_cast<int>(members.size()),
                                              std::move(group));
  }

  // Where a payload lies for NCCL: itself, or a copy on the device of one in host memory.
  class Staged {
   public:
    enum class Kind : uint8_t { input, result, both };
    Staged(NcclCommunicator& comm, ConstPayload payload)
        : Staged(comm, {const_cast<void*>(payload.data), payload.count, payload.element},
                 Kind::input) {}
    Staged(NcclCommunicator& comm, Payload payload, Kind kind)
        : device_(comm.ranks_->device()), payload_(payload), data_(payload.data) {
      if (!comm.memory().is_host(payload.data)) return;
      expect(!comm.device_goes_on_, "what is overlapped lies on the device");
      copy_ = Buffer(device_, payload.bytes(), MemoryUse::workspace);
      data_ = copy_.data();
      if (kind != Kind::result) device_.copy_to_device(data_, payload.data, payload.bytes());
    }
    void* data() const { return data_; }
    // Brings the result to the host, if that is where it belongs.
    void fetch() const {
      if (data_ != payload_.data) device_.copy_to_host(payload_.data, data_, payload_.bytes());
    }

   private:
    CudaDevice& device_;
    Payload payload_;
    Buffer copy_;
    void* data_;
  };

  // The operation waits for the device's work so far, and later work for the operation, unless that
  // is left to end_overlap(), which knows of collective verbs alone.
  template <class Operation>
  void run(NcclChannel& channel, const Operation& operation) {
    CudaStream& device = ranks_->device().stream();
    ranks_->settle(channel);
    device.record(channel.begun());
    channel.stream().wait_for(channel.begun());
    check(operation(channel.comm(), channel.stream().get()));
    ranks_->settle(channel);
    channel.stream().record(channel.done());
    if (!device_goes_on_ || &channel != channels_.all.get()) device.wait_for(channel.done());
  }

  std::shared_ptr<NcclRanks> ranks_;
  Channels channels_;
  bool device_goes_on_ = false;
};

}  // namespace

std::unique_ptr<Communicator> make_nccl_communicator(std::shared_ptr<NcclRanks> ranks, int rank,
                                                     int size, const ncclUniqueId& id) {
  Channels channels;
  if (size > 1) {
    channels.all = ranks->connect(size, id, rank);
    channels.up = ranks->split(*channels.all, false, 0, rank);
    channels.down = ranks->split(*channels.all, false, 0, rank);
  }
  return std::make_unique<NcclCommunicator>(std::move(ranks), rank, size, std::move(channels));
}

}  // namespace engine
