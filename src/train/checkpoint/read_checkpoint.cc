// Reading checkpoints: every rank what it needs, whoever sees the files.
#include <torch/torch.h>

#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/train/safetensors.h"
#include "convoy/train/state.h"
#include "train/checkpoint/checkpoint_names.h"
#include "train/checkpoint/destination.h"
#include "train/checkpoint/slice_reader.h"
#include "train/rank_work.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

// What a process wants of a checkpoint.
struct Request {
  Wanted wanted = everything;
  int rank = 0;
  int world = 1;
  bool model_only = false;
  torch::nn::Module* network = nullptr;  // whose tensors are to be filled
};

struct Room {
  State state;
  // By place in Manifest::tensors; slices are of tensors under their stored names.
  std::map<std::size_t, Destination> targets;
};

// The name of the parameter that a tensor belongs to.
std::string parameter_of(const StoredTensor& tensor) {
  return tensor.group == TensorGroup::optimizer ? tensor.name.substr(tensor.name.find('/') + 1)
                                                : tensor.name;
}

Room make_room(const Manifest& manifest, const Request& request) {
  Room room;
  const std::string own = std::to_string(request.rank) + "/";
  const Tensors live = request.network != nullptr ? all_tensors(*request.network) : Tensors();
  for (std::size_t i = 0; i < manifest.tensors.size(); ++i) {
    const StoredTensor& tensor = manifest.tensors[i];
    if (request.model_only && tensor.group != TensorGroup::model) continue;
    std::optional<Slice> slice;
    std::string name = tensor.name;
    if (tensor.group == TensorGroup::rank) {
      if (request.world != manifest.world || !name.starts_with(own)) continue;
      name = name.substr(own.size());
      slice = whole_of(tensor.name, tensor.shape);
    } else {
      const std::string parameter = parameter_of(tensor);
      slice = request.wanted(whole_of(parameter, tensor.shape));
      if (!slice) continue;
      slice->check();
      if (!slice->whole()) room.state.parts[parameter] = *slice;
      slice->tensor = tensor.name;
    }
    const auto filled = tensor.group == TensorGroup::model ? live.find(name) : live.end();
    const bool fits =
        filled != live.end() && filled->second.sizes() == at::IntArrayRef(slice->size);
    const auto& [at, fresh] =
        room.targets.emplace(i, fits ? Destination(*slice, tensor.type, filled->second)
                                     : Destination(*slice, tensor.type));
    Tensors& tensors = tensor.group == TensorGroup::model       ? room.state.model
                       : tensor.group == TensorGroup::optimizer ? room.state.optimizer
                                                                : room.state.rank;
    tensors[name] = at->second.tensor();
  }
  room.state.aliases = manifest.aliases;
  room.state.numbers = manifest.numbers;
  room.state.lists = manifest.lists;
  return room;
}

// The stored slices that hold something of what is wanted: (tensor, slice).
std::set<std::pair<std::size_t, std::size_t>> needs(const Manifest& manifest, const Room& room) {
  std::set<std::pair<std::size_t, std::size_t>> all;
  for (const auto& [t, target] : room.targets) {
    const StoredTensor& tensor = manifest.tensors[t];
    for (std::size_t s = 0; s < tensor.slices.size(); ++s) {
      if (overlap(tensor.slice(tensor.slices[s]), target.slice())) all.insert({t, s});
    }
  }
  return all;
}

// Puts what is read into its place. Tensors come one after the other.
class Filling {
 public:
  explicit Filling(Room& room) : room_(room), now_(room.targets.end()) {}

  void take(std::size_t tensor, const Slice& piece, std::span<const std::byte> bytes) {
    if (now_ == room_.targets.end() || now_->first != tensor) {
      finish();
      now_ = room_.targets.find(tensor);
    }
    if (now_ != room_.targets.end()) now_->second.take(piece, bytes);
  }
  // After the last.
  void finish() {
    if (now_ != room_.targets.end()) now_->second.finish();
  }

 private:
  Room& room_;
  std::map<std::size_t, Destination>::iterator now_;
};

void fill(const std::string& path, const Manifest& manifest, Room& room) {
  try {
    SliceReader reader(path);
    Filling filling(room);
    for (const auto& [t, s] : needs(manifest, room)) {
      const StoredTensor& tensor = manifest.tensors[t];
      const std::size_t place = t;
      reader.read(tensor, tensor.slices[s],
                  [&, place](const Slice& piece, std::span<const std::byte> bytes) {
                    filling.take(place, piece, bytes);
                  });
    }
    filling.finish();
  } catch (const UsageError& error) {
    throw damaged_checkpoint(path, error.what());
  }
}

State read(const std::string& path, const Manifest& manifest, const Request& request) {
  Room room = make_room(manifest, request);
  fill(path, manifest, room);
  return std::move(room.state);
}

std::string manifest_hash(const std::string& path) {
  const std::string text = read_text_file(path + "/" + kManifestFile);
  return to_hex(xxh3(std::as_bytes(std::span(text))));
}

// Whether what a rank finds under this path is the checkpoint that rank 0 has there.
bool sees(const std::string& path, const Manifest& manifest, const std::string& hash) {
  try {
    if (manifest_hash(path) != hash) return false;
    for (const auto& [name, entry] : manifest.files) {
      if (fs::file_size(path + "/" + name) != entry.bytes) return false;
    }
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Rank 0 reads stored slices and sends them to all, piece by piece.
class HandingOn {
 public:
  // `room`: null on a rank that has what it needs.
  HandingOn(const comm::Communicator& communicator, const std::string& path,
            const Manifest& manifest, Room* room)
      : communicator_(communicator), path_(path), manifest_(manifest) {
    if (room != nullptr) filling_.emplace(*room);
  }

  void run(const std::set<std::pair<std::size_t, std::size_t>>& slices) {
    if (communicator_.rank() == 0) {
      send(slices);
    } else {
      receive(slices);
    }
    if (filling_) filling_->finish();
  }

 private:
  enum : std::int64_t { kPiece, kProblem, kEnd };

  std::int64_t tell(std::int64_t what) const {
    std::array<std::int64_t, 1> word{what};
    communicator_.broadcast(comm::buffer_of(word), 0);
    return word[0];
  }

  void take(std::size_t tensor, const Slice& piece, std::span<const std::byte> bytes) {
    if (filling_) filling_->take(tensor, piece, bytes);
  }

  void send(const std::set<std::pair<std::size_t, std::size_t>>& slices) {
    std::string problem;
    try {
      SliceReader reader(path_);
      for (const auto& [t, s] : slices) {
        const StoredTensor& tensor = manifest_.tensors[t];
        const std::size_t place = t;
        reader.read(
            tensor, tensor.slices[s], [&](const Slice& piece, std::span<const std::byte> bytes) {
              tell(kPiece);
              // What is broadcast is only read on the rank that has it.
              communicator_.broadcast(
                  comm::Buffer(const_cast<std::byte*>(bytes.data()), bytes.size(), comm::Type::u8),
                  0);
              take(place, piece, bytes);
            });
      }
    } catch (const UsageError& error) {
      problem = error.what();
    }
    tell(problem.empty() ? kEnd : kProblem);
    if (problem.empty()) return;
    on_rank_0(communicator_, [&]() -> std::string { throw damaged_checkpoint(path_, problem); });
  }

  void receive(const std::set<std::pair<std::size_t, std::size_t>>& slices) {
    struct Broken {};
    std::vector<std::byte> buffer;
    try {
      for (const auto& [t, s] : slices) {
        const StoredTensor& tensor = manifest_.tensors[t];
        const std::size_t element = size_of_type(tensor.type), place = t;
        for_each_piece(tensor.slice(tensor.slices[s]), element, kPieceBytes,
                       [&](const Slice& piece) {
                         if (tell(0) == kProblem) throw Broken();
                         buffer.resize(static_cast<std::size_t>(piece.elements()) * element);
                         communicator_.broadcast(
                             comm::Buffer(buffer.data(), buffer.size(), comm::Type::u8), 0);
                         take(place, piece, buffer);
                       });
      }
      if (tell(0) == kEnd) return;
    } catch (const Broken&) {
    }
    on_rank_0(communicator_, [] { return std::string(); });  // throws what rank 0 found
  }

  const comm::Communicator& communicator_;
  const std::string& path_;
  const Manifest& manifest_;
  std::optional<Filling> filling_;
};

std::string to_text(const std::set<std::pair<std::size_t, std::size_t>>& slices) {
  std::string text;
  for (const auto& [t, s] : slices) text += std::to_string(t) + " " + std::to_string(s) + " ";
  return text;
}

}  // namespace

std::optional<Slice> everything(const Slice& whole) { return whole; }

namespace {

State read_by_all(const comm::Communicator& communicator, const std::string& path,
                  const Manifest& manifest, const Request& request) {
  if (communicator.size() == 1) return read(path, manifest, request);
  const std::string hash = on_rank_0(communicator, [&path] { return manifest_hash(path); });
  Room room;
  bool mine = false;
  on_every_rank(communicator, [&] {
    room = make_room(manifest, request);
    mine = sees(path, manifest, hash);
  });
  std::set<std::pair<std::size_t, std::size_t>> handed_on;
  if (!mine || communicator.rank() == 0) handed_on = needs(manifest, room);
  const std::vector<std::string> missed =
      communicator.gather_text(mine ? "" : " " + to_text(handed_on));
  bool all_see = true;
  for (const std::string& text : missed) {
    all_see = all_see && text.empty();
    std::istringstream numbers(text);
    std::size_t t = 0, s = 0;
    while (numbers >> t >> s) handed_on.insert({t, s});
  }
  // Where rank 0 has to read for others, it reads for itself on the way.
  on_every_rank(communicator, [&] {
    if (mine && (all_see || communicator.rank() != 0)) fill(path, manifest, room);
  });
  if (all_see) return std::move(room.state);
  // Everybody has to know what comes: what rank 0 needs, and those who don't see the files.
  const std::string list = communicator.broadcast_text(to_text(handed_on), 0);
  std::istringstream numbers(list);
  std::size_t t = 0, s = 0;
  handed_on.clear();
  while (numbers >> t >> s) handed_on.insert({t, s});
  const bool has_all = mine && communicator.rank() != 0;
  HandingOn(communicator, path, manifest, has_all ? nullptr : &room).run(handed_on);
  return std::move(room.state);
}

}  // namespace

State read_checkpoint(const comm::Communicator& communicator, const std::string& path,
                      const Manifest& manifest, const Wanted& wanted, torch::nn::Module* network) {
  return read_by_all(communicator, path, manifest,
                     {wanted, communicator.rank(), communicator.size(), false, network});
}

State read_checkpoint(const std::string& path, const Manifest& manifest, int rank, int world) {
  return read(path, manifest, {everything, rank, world, false});
}

State read_model(const comm::Communicator& communicator, const std::string& path,
                 const Manifest& manifest, const Wanted& wanted, torch::nn::Module& network) {
  return read_by_all(communicator, path, manifest,
                     {wanted, communicator.rank(), communicator.size(), true, &network});
}

State read_model(const std::string& path, const Manifest& manifest) {
  return read(path, manifest, {everything, 0, 1, true});
}

}  // namespace convoy::train
