#pragma once
/// A connected socket with its stream and its decoder, handed from the greeting to the connection.

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <memory>
#include <string>

#include "transport/byte_stream.hpp"
#include "transport/event_loop.hpp"
#include "transport/frame_decoder.hpp"

namespace zerolock {

struct SocketChannel {
  /// Takes a connected socket over; its decoder takes nothing but the first frame of a handshake.
  SocketChannel(std::shared_ptr<EventLoop> loop_, asio::ip::tcp::socket socket_, const Security& security,
                StreamSide side);

  std::shared_ptr<EventLoop> loop;
  asio::ip::tcp::socket socket;
  std::unique_ptr<ByteStream> stream;
  FrameDecoder decoder;
  std::string remote;  // "10.0.0.2:40312"
};

/// "10.0.0.2:7000", "[::1]:7000"
std::string endpoint_text(const asio::ip::tcp::endpoint& endpoint);

}  // namespace zerolock
