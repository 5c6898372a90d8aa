// Messages with values that stay in the caller's memory.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "server/client/directory.h"
#include "server/client/loan.h"
#include "server/transport/message.h"
#include "server/wire/values.h"
#include "server/wire/writer.h"

namespace convoy::server::client {

// When it ends, nothing refers to the caller's memory any more: it waits for what is under way, and
// ends the connections if that takes too long.
class Lending {
 public:
  explicit Lending(Directory& directory) : directory_(directory) {}
  ~Lending() {
    while (!loan_.returned(Clock::now() + std::chrono::seconds(10))) directory_.close_channels();
  }
  Lending(const Lending&) = delete;
  Lending& operator=(const Lending&) = delete;

  // A command of its pieces and the arrays in between, which are the caller's.
  transport::Message message(std::vector<Bytes> pieces,
                             const std::vector<EncodedValues>& arrays) const {
    std::vector<std::span<const std::byte>> bytes;
    for (const EncodedValues& array : arrays) bytes.push_back(array.bytes());
    return message(std::move(pieces), bytes);
  }
  transport::Message message(std::vector<Bytes> pieces,
                             const std::vector<std::span<const std::byte>>& arrays) const {
    transport::Message message;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      message.append(transport::Message::of(std::move(pieces[i])));
      if (i < arrays.size()) message.append({arrays[i], loan_.owner()});
    }
    return message;
  }

 private:
  Directory& directory_;
  Loan loan_;
};

}  // namespace convoy::server::client
