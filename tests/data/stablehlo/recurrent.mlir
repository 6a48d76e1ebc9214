"builtin.module"() <{sym_name = "jit_network"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<9x3x6xf32>) -> (tensor<3x8xf32>, tensor<9x3x8xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg10: tensor<9x3x6xf32>):
    %46 = "stablehlo.constant"() <{value = dense<"0x7D1B973D4E04D33EF01E97BED0434DBEEBA52FBE4DFE673E169FC9BDD316563F1703D33D60B9163F7F59AF3E4FD9243F4CD05BBFBEA03F3D7DD81FBEA7E1093D00DB5F3E90E818BD903109BF89BF563ECEDE17BFD9FA043F80FC56BE9EA08A3E94D3F53E9FB7273E5EEFCCBD91881B3E0B9700BE6ED7A7BB96E0DCBE5882C2BEE97B35BF3B4E09BEE59DCD3C0F6B6ABEA39EE9BE50E9E13EA9A92A3E5D641B3FFBA1633FC93B6ABF8E70CE3C14A19E3EB7223EBD9F934ABE097F163F793DBE3D508178BE28A32DBE14101B3FCB9D5ABE217ACC3E1BBF163FED39473D6861D9BEB15AA53E50B8C1BE49EA9FBEFE47883EBFB5AC3DB941563D5ED91CBD9313E3BCE66810BF5FFFCDBDE5A4A4BE6B86D4BE765005BEC49053BE3ECD0A3F1A6EA13EBC1B1F3F22BFA93D438AB33E5D81303E1B4B103FCB40B03E4EB3453E1590533E596173BDDAD91A3FE6D05D3D1D7CA7BE5E82F1BCB2390E3FC153FD3E63E51D3EF3B1B03EBDDE1B3FA9AC403F6C088BBEE475D7BC935BE33D6543003F70FFDEBE4BD6E33E365FA63EAF5FF33E9CC6F9BDF011433FD37B053DD291B13D065414BED041653EF5DCF43E7FA33D3F5330A5BE7A250CBE335E143D148531BE4FDAE7BDF0B2AEBEBCC5223F798A88BB9C61CE3E90C6CFBE5306943EE7CEC93D2271D13DB86D3B3F9F3E1F3DF2B3F8BEB5BB4CBFCDF902BE537DDD3E53B19CBE9781E2BE8AB301BDA76C313C7990D13CD98E083FCF9300BEB127833DAE81093E1A13AC3E1AE2823E4EB781BE064097BE3C213A3FEEE63C3D56C991BE74ED843D5F643F3E"> : tensor<6x24xf32>}> : () -> tensor<6x24xf32>
    %47 = "stablehlo.constant"() <{value = dense<[-1.01908958, 0.979744315, -0.630010783, -1.76118338, 1.54644811, -0.348054379, -0.80665034, 0.110963315, 0.103521638, -1.03864908, -0.907655835, -0.596250892, -1.39087522, -0.806079089, -1.68768787, -1.12783849, -1.10196126, 0.83488512, 0.225882143, -1.06669521, 0.638044596, -0.509398341, 0.302931607, 0.89631617]> : tensor<24xf32>}> : () -> tensor<24xf32>
    %48 = "stablehlo.constant"() <{value = dense<"0xC42B223E7C10EFBEFACC2E3EB93232BF991420BE5E7CA9BE8224BEBED85DA9BE5A85633D49473CBDF80D45BFEB0405BF19EDDCBEC17B24BEF0143ABFF5ACA43E4B7316BF7233433E757038BF887E0C3ECCF809BECA84963EED5637BDF3898C3D2B1B843D6C0C98BED6083ABE6B46303E4CFD703E141DEA3C57FB46BEBB64903E2D1DD83E7AC2163E37264DBDA9F922BFA28B04BF5199453DF6B70F3E6375F13B39FFC3BD8FB9F0BE064D7EBEFBC9ED3CF8CAAB3E2D948FBE4BB488BEDC3F263F6E12C6BDFA7CAC3E22CD8E3E932B143E9536ECBBD83606BEC167D53EEF01C63E5F5764BF5032CDBEC93F36BE738F64BEC9B1B63DCE224F3C8E42293EF6B6C0BE430BB1BDF4A80B3D1F5DDA3EC75D813CA4C1E73E7C7FAD3DF88009BE419E61BE79B1A23EA131CEBD1CB7033F5E780ABE08AD023FDCFC9EBE9719A23EB533543D43EFD7BE5697213EBEA2F2BE9FA303BFE429E1BE6928B53E685284BD652D89BE1C738FBE2FF0D23E93E2AB3E84024C3EF9CB4FBF604014BEF8FE9CBE87609F3E41B5153F72A6443EEAB4883D45BCE43D0472793E46807F3ED85CEA3E07BAE5BD64CBFD3E9F186A3E607B603D8EE4453D36A53E3FB53528BE264794BC60F596BA2C02323EEE65AE3D583B8B3D59CBD7BE8F432DBE8AD5A7BEC88A403DBDB87E3E13D8BBBD6B8198BDC401F53ECFD6453EC82290BE2853913E9B953A3D0924E73D77404B3E2BD00D3EA603E33C53169ABE688EB63DE485F4BEAB8F4CBE03B36E3E62A34EBEB4235CBD7FBE8A3E4A2443BEC2B08DBD0B83B1BE237483BEE332B53EA37F643E2B932D3E517032BF53180C3FDEF3433EA1170EBEAC4683BCFA4AB33E332B343E8E7996BDC6B1953EFCD63EBFB37A49BE70BDAE3EFDC652BF18F929BEBE6AA7BE469AB6BED409853E26A568BE987C45BE8BF41DBF8FA9CB3EF091953D2D2F0CBF7FE21BBD8491F23BF121DD3EB9253E3EEC61C53E659E693E18C436BF830A4F3EC6A43A3D5D5836BEFB7E3ABB7580EFBE8B86B83ED264EBBE0D3DA13B65A2EA3DC302E2BE8C4B1DBEBE9AC9BCA8C59EBE7C1D88BEEEF2B83EC38442BF"> : tensor<8x24xf32>}> : () -> tensor<8x24xf32>
    %49 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %50 = "stablehlo.broadcast_in_dim"(%49) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x8xf32>
    %51 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %52 = "stablehlo.broadcast_in_dim"(%51) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<9x3x8xf32>
    %53 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %54:7 = "stablehlo.while"(%arg10, %46, %47, %48, %53, %50, %52) ({
    ^bb0(%arg18: tensor<9x3x6xf32>, %arg19: tensor<6x24xf32>, %arg20: tensor<24xf32>, %arg21: tensor<8x24xf32>, %arg22: tensor<i32>, %arg23: tensor<3x8xf32>, %arg24: tensor<9x3x8xf32>):
      %60 = "stablehlo.constant"() <{value = dense<9> : tensor<i32>}> : () -> tensor<i32>
      %61 = "stablehlo.compare"(%arg22, %60) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction LT>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%61) : (tensor<i1>) -> ()
    }, {
    ^bb0(%arg11: tensor<9x3x6xf32>, %arg12: tensor<6x24xf32>, %arg13: tensor<24xf32>, %arg14: tensor<8x24xf32>, %arg15: tensor<i32>, %arg16: tensor<3x8xf32>, %arg17: tensor<9x3x8xf32>):
      %55 = "func.call"(%arg11, %arg15) <{callee = @dynamic_index_in_dim}> : (tensor<9x3x6xf32>, tensor<i32>) -> tensor<3x6xf32>
      %56:2 = "func.call"(%arg12, %arg13, %arg14, %arg16, %55) <{callee = @closed_call}> : (tensor<6x24xf32>, tensor<24xf32>, tensor<8x24xf32>, tensor<3x8xf32>, tensor<3x6xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>)
      %57 = "func.call"(%arg17, %56#1, %arg15) <{callee = @dynamic_update_index_in_dim}> : (tensor<9x3x8xf32>, tensor<3x8xf32>, tensor<i32>) -> tensor<9x3x8xf32>
      %58 = "stablehlo.constant"() <{value = dense<1> : tensor<i32>}> : () -> tensor<i32>
      %59 = "stablehlo.add"(%arg15, %58) : (tensor<i32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%arg11, %arg12, %arg13, %arg14, %59, %56#0, %57) : (tensor<9x3x6xf32>, tensor<6x24xf32>, tensor<24xf32>, tensor<8x24xf32>, tensor<i32>, tensor<3x8xf32>, tensor<9x3x8xf32>) -> ()
    }) : (tensor<9x3x6xf32>, tensor<6x24xf32>, tensor<24xf32>, tensor<8x24xf32>, tensor<i32>, tensor<3x8xf32>, tensor<9x3x8xf32>) -> (tensor<9x3x6xf32>, tensor<6x24xf32>, tensor<24xf32>, tensor<8x24xf32>, tensor<i32>, tensor<3x8xf32>, tensor<9x3x8xf32>)
    "func.return"(%54#5, %54#6) : (tensor<3x8xf32>, tensor<9x3x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<9x3x6xf32>, tensor<i32>) -> tensor<3x6xf32>, res_attrs = [{}], sym_name = "dynamic_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg8: tensor<9x3x6xf32>, %arg9: tensor<i32>):
    %42 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %43 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %44 = "stablehlo.dynamic_slice"(%arg8, %arg9, %42, %43) <{slice_sizes = array<i64: 1, 3, 6>}> : (tensor<9x3x6xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x3x6xf32>
    %45 = "stablehlo.reshape"(%44) : (tensor<1x3x6xf32>) -> tensor<3x6xf32>
    "func.return"(%45) : (tensor<3x6xf32>) -> ()
  }) : () -> ()
  "func.func"() <{function_type = (tensor<6x24xf32>, tensor<24xf32>, tensor<8x24xf32>, tensor<3x8xf32>, tensor<3x6xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>), res_attrs = [{}, {}], sym_name = "closed_call", sym_visibility = "private"}> ({
  ^bb0(%arg3: tensor<6x24xf32>, %arg4: tensor<24xf32>, %arg5: tensor<8x24xf32>, %arg6: tensor<3x8xf32>, %arg7: tensor<3x6xf32>):
    %4 = "stablehlo.dot_general"(%arg7, %arg3) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<3x6xf32>, tensor<6x24xf32>) -> tensor<3x24xf32>
    %5 = "stablehlo.broadcast_in_dim"(%arg4) <{broadcast_dimensions = array<i64: 1>}> : (tensor<24xf32>) -> tensor<1x24xf32>
    %6 = "stablehlo.broadcast_in_dim"(%5) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x24xf32>) -> tensor<3x24xf32>
    %7 = "stablehlo.add"(%4, %6) : (tensor<3x24xf32>, tensor<3x24xf32>) -> tensor<3x24xf32>
    %8 = "stablehlo.dot_general"(%arg6, %arg5) <{dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}> : (tensor<3x8xf32>, tensor<8x24xf32>) -> tensor<3x24xf32>
    %9 = "stablehlo.slice"(%7) <{limit_indices = array<i64: 3, 8>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<3x24xf32>) -> tensor<3x8xf32>
    %10 = "stablehlo.slice"(%8) <{limit_indices = array<i64: 3, 8>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<3x24xf32>) -> tensor<3x8xf32>
    %11 = "stablehlo.add"(%9, %10) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %12 = "stablehlo.negate"(%11) : (tensor<3x8xf32>) -> tensor<3x8xf32>
    %13 = "stablehlo.exponential"(%12) : (tensor<3x8xf32>) -> tensor<3x8xf32>
    %14 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %15 = "stablehlo.broadcast_in_dim"(%14) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x8xf32>
    %16 = "stablehlo.add"(%15, %13) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %17 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %18 = "stablehlo.broadcast_in_dim"(%17) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x8xf32>
    %19 = "stablehlo.divide"(%18, %16) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %20 = "stablehlo.slice"(%7) <{limit_indices = array<i64: 3, 16>, start_indices = array<i64: 0, 8>, strides = array<i64: 1, 1>}> : (tensor<3x24xf32>) -> tensor<3x8xf32>
    %21 = "stablehlo.slice"(%8) <{limit_indices = array<i64: 3, 16>, start_indices = array<i64: 0, 8>, strides = array<i64: 1, 1>}> : (tensor<3x24xf32>) -> tensor<3x8xf32>
    %22 = "stablehlo.add"(%20, %21) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %23 = "stablehlo.negate"(%22) : (tensor<3x8xf32>) -> tensor<3x8xf32>
    %24 = "stablehlo.exponential"(%23) : (tensor<3x8xf32>) -> tensor<3x8xf32>
    %25 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %26 = "stablehlo.broadcast_in_dim"(%25) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x8xf32>
    %27 = "stablehlo.add"(%26, %24) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %28 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %29 = "stablehlo.broadcast_in_dim"(%28) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x8xf32>
    %30 = "stablehlo.divide"(%29, %27) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %31 = "stablehlo.slice"(%7) <{limit_indices = array<i64: 3, 24>, start_indices = array<i64: 0, 16>, strides = array<i64: 1, 1>}> : (tensor<3x24xf32>) -> tensor<3x8xf32>
    %32 = "stablehlo.slice"(%8) <{limit_indices = array<i64: 3, 24>, start_indices = array<i64: 0, 16>, strides = array<i64: 1, 1>}> : (tensor<3x24xf32>) -> tensor<3x8xf32>
    %33 = "stablehlo.multiply"(%30, %32) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %34 = "stablehlo.add"(%31, %33) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %35 = "stablehlo.tanh"(%34) : (tensor<3x8xf32>) -> tensor<3x8xf32>
    %36 = "stablehlo.multiply"(%19, %arg6) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %37 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %38 = "stablehlo.broadcast_in_dim"(%37) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x8xf32>
    %39 = "stablehlo.subtract"(%38, %19) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %40 = "stablehlo.multiply"(%39, %35) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    %41 = "stablehlo.add"(%36, %40) : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
    "func.return"(%41, %41) : (tensor<3x8xf32>, tensor<3x8xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<9x3x8xf32>, tensor<3x8xf32>, tensor<i32>) -> tensor<9x3x8xf32>, res_attrs = [{}], sym_name = "dynamic_update_index_in_dim", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<9x3x8xf32>, %arg1: tensor<3x8xf32>, %arg2: tensor<i32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<3x8xf32>) -> tensor<1x3x8xf32>
    %1 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %2 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %3 = "stablehlo.dynamic_update_slice"(%arg0, %0, %arg2, %1, %2) : (tensor<9x3x8xf32>, tensor<1x3x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<9x3x8xf32>
    "func.return"(%3) : (tensor<9x3x8xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
