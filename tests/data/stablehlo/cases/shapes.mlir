// case constants
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x5xf32>) -> tensor<3x5xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3x5xf32>):
    %0 = "stablehlo.constant"() <{value = dense<[[0.000000e+00, 1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00], [5.000000e+00, 6.000000e+00, 7.000000e+00, 8.000000e+00, 9.000000e+00], [1.000000e+01, 1.100000e+01, 1.200000e+01, 1.300000e+01, 1.400000e+01]]> : tensor<3x5xf32>}> : () -> tensor<3x5xf32>
    %1 = "stablehlo.add"(%arg0, %0) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
    "func.return"(%1) : (tensor<3x5xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case long_constant
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<8x75xf32>) -> tensor<8x75xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<8x75xf32>):
    %0 = "stablehlo.constant"() <{value = dense<"0x000080BF2F257FBF5D4A7EBF8C6F7DBFBA947CBFE9B97BBF18DF7ABF46047ABF752979BFA34E78BFD27377BF009976BF2FBE75BF5EE374BF8C0874BFBB2D73BFE95272BF187871BF479D70BF75C26FBFA4E76EBFD20C6EBF01326DBF2F576CBF5E7C6BBF8DA16ABFBBC669BFEAEB68BF181168BF473667BF765B66BFA48065BFD3A564BF01CB63BF30F062BF5E1562BF8D3A61BFBC5F60BFEA845FBF19AA5EBF47CF5DBF76F45CBFA5195CBFD33E5BBF02645ABF308959BF5FAE58BF8DD357BFBCF856BFEB1D56BF194355BF486854BF768D53BFA5B252BFD4D751BF02FD50BF312250BF5F474FBF8E6C4EBFBC914DBFEBB64CBF1ADC4BBF48014BBF77264ABFA54B49BFD47048BF039647BF31BB46BF60E045BF8E0545BFBD2A44BFEB4F43BF1A7542BF499A41BF77BF40BFA6E43FBFD4093FBF032F3EBF32543DBF60793CBF8F9E3BBFBDC33ABFECE839BF1A0E39BF493338BF785837BFA67D36BFD5A235BF03C834BF32ED33BF611233BF8F3732BFBE5C31BFEC8130BF1BA72FBF4ACC2EBF78F12DBFA7162DBFD53B2CBF04612BBF32862ABF61AB29BF90D028BFBEF527BFED1A27BF1B4026BF4A6525BF798A24BFA7AF23BFD6D422BF04FA21BF331F21BF614420BF90691FBFBF8E1EBFEDB31DBF1CD91CBF4AFE1BBF79231BBFA8481ABFD66D19BF059318BF33B817BF62DD16BF900216BFBF2715BFEE4C14BF1C7213BF4B9712BF79BC11BFA8E110BFD70610BF052C0FBF34510EBF62760DBF919B0CBFBFC00BBFEEE50ABF1D0B0ABF4B3009BF7A5508BFA87A07BFD79F06BF06C505BF34EA04BF630F04BF913403BFC05902BFEE7E01BF1DA400BF9792FFBEF4DCFDBE5227FCBEAF71FABE0CBCF8BE6906F7BEC650F5BE239BF3BE81E5F1BEDE2FF0BE3B7AEEBE98C4ECBEF50EEBBE5259E9BEB0A3E7BE0DEEE5BE6A38E4BEC782E2BE24CDE0BE8117DFBEDF61DDBE3CACDBBE99F6D9BEF640D8BE538BD6BEB1D5D4BE0E20D3BE6B6AD1BEC8B4CFBE25FFCDBE8249CCBEE093CABE3DDEC8BE9A28C7BEF772C5BE54BDC3BEB107C2BE0F52C0BE6C9CBEBEC9E6BCBE2631BBBE837BB9BEE0C5B7BE3E10B6BE9B5AB4BEF8A4B2BE55EFB0BEB239AFBE0F84ADBE6DCEABBECA18AABE2763A8BE84ADA6BEE1F7A4BE3E42A3BE9C8CA1BEF9D69FBE56219EBEB36B9CBE10B69ABE6D0099BECB4A97BE289595BE85DF93BEE22992BE3F7490BE9CBE8EBEFA088DBE57538BBEB49D89BE11E887BE6E3286BECB7C84BE29C782BE861181BEC6B77EBE804C7BBE3BE177BEF57574BEAF0A71BE6A9F6DBE24346ABEDEC866BE995D63BE53F25FBE0D875CBEC81B59BE82B055BE3C4552BEF7D94EBEB16E4BBE6B0348BE269844BEE02C41BE9AC13DBE55563ABE0FEB36BEC97F33BE841430BE3EA92CBEF83D29BEB3D225BE6D6722BE27FC1EBEE2901BBE9C2518BE56BA14BE114F11BECBE30DBE85780ABE400D07BEFAA103BEB43600BEDD96F9BD52C0F2BDC7E9EBBD3B13E5BDB03CDEBD2566D7BD998FD0BD0EB9C9BD83E2C2BDF70BBCBD6C35B5BDE15EAEBD5588A7BDCAB1A0BD3FDB99BDB30493BD282E8CBD9D5785BD23027DBD0C556FBDF6A761BDDFFA53BDC84D46BDB2A038BD9BF32ABD84461DBD6E990FBD57EC01BD817EE8BC5424CDBC26CAB1BCF96F96BC982B76BC3D773FBCE3C208BC101DA4BB6AD1DABA6AD1DA3A101DA43BE3C2083C3D773F3C982B763CF96F963C26CAB13C5424CD3C817EE83C57EC013D6E990F3D84461D3D9BF32A3DB2A0383DC84D463DDFFA533DF6A7613D0C556F3D23027D3D9D57853D282E8C3DB304933D3FDB993DCAB1A03D5588A73DE15EAE3D6C35B53DF70BBC3D83E2C23D0EB9C93D998FD03D2566D73DB03CDE3D3B13E53DC7E9EB3D52C0F23DDD96F93DB436003EFAA1033E400D073E85780A3ECBE30D3E114F113E56BA143E9C25183EE2901B3E27FC1E3E6D67223EB3D2253EF83D293E3EA92C3E8414303EC97F333E0FEB363E55563A3E9AC13D3EE02C413E2698443E6B03483EB16E4B3EF7D94E3E3C45523E82B0553EC81B593E0D875C3E53F25F3E995D633EDEC8663E24346A3E6A9F6D3EAF0A713EF575743E3BE1773E804C7B3EC6B77E3E8611813E29C7823ECB7C843E6E32863E11E8873EB49D893E57538B3EFA088D3E9CBE8E3E3F74903EE229923E85DF933E2895953ECB4A973E6D00993E10B69A3EB36B9C3E56219E3EF9D69F3E9C8CA13E3E42A33EE1F7A43E84ADA63E2763A83ECA18AA3E6DCEAB3E0F84AD3EB239AF3E55EFB03EF8A4B23E9B5AB43E3E10B63EE0C5B73E837BB93E2631BB3EC9E6BC3E6C9CBE3E0F52C03EB107C23E54BDC33EF772C53E9A28C73E3DDEC83EE093CA3E8249CC3E25FFCD3EC8B4CF3E6B6AD13E0E20D33EB1D5D43E538BD63EF640D83E99F6D93E3CACDB3EDF61DD3E8117DF3E24CDE03EC782E23E6A38E43E0DEEE53EB0A3E73E5259E93EF50EEB3E98C4EC3E3B7AEE3EDE2FF03E81E5F13E239BF33EC650F53E6906F73E0CBCF83EAF71FA3E5227FC3EF4DCFD3E9792FF3E1DA4003FEE7E013FC059023F9134033F630F043F34EA043F06C5053FD79F063FA87A073F7A55083F4B30093F1D0B0A3FEEE50A3FBFC00B3F919B0C3F62760D3F34510E3F052C0F3FD706103FA8E1103F79BC113F4B97123F1C72133FEE4C143FBF27153F9002163F62DD163F33B8173F0593183FD66D193FA8481A3F79231B3F4AFE1B3F1CD91C3FEDB31D3FBF8E1E3F90691F3F6144203F331F213F04FA213FD6D4223FA7AF233F798A243F4A65253F1B40263FED1A273FBEF5273F90D0283F61AB293F32862A3F04612B3FD53B2C3FA7162D3F78F12D3F4ACC2E3F1BA72F3FEC81303FBE5C313F8F37323F6112333F32ED333F03C8343FD5A2353FA67D363F7858373F4933383F1A0E393FECE8393FBDC33A3F8F9E3B3F60793C3F32543D3F032F3E3FD4093F3FA6E43F3F77BF403F499A413F1A75423FEB4F433FBD2A443F8E05453F60E0453F31BB463F0396473FD470483FA54B493F77264A3F48014B3F1ADC4B3FEBB64C3FBC914D3F8E6C4E3F5F474F3F3122503F02FD503FD4D7513FA5B2523F768D533F4868543F1943553FEB1D563FBCF8563F8DD3573F5FAE583F3089593F02645A3FD33E5B3FA5195C3F76F45C3F47CF5D3F19AA5E3FEA845F3FBC5F603F8D3A613F5E15623F30F0623F01CB633FD3A5643FA480653F765B663F4736673F1811683FEAEB683FBBC6693F8DA16A3F5E7C6B3F2F576C3F01326D3FD20C6E3FA4E76E3F75C26F3F479D703F1878713FE952723FBB2D733F8C08743F5EE3743F2FBE753F0099763FD273773FA34E783F7529793F46047A3F18DF7A3FE9B97B3FBA947C3F8C6F7D3F5D4A7E3F2F257F3F0000803F"> : tensor<8x75xf32>}> : () -> tensor<8x75xf32>
    %1 = "stablehlo.add"(%arg0, %0) : (tensor<8x75xf32>, tensor<8x75xf32>) -> tensor<8x75xf32>
    "func.return"(%1) : (tensor<8x75xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case long_truths
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<8x75xf32>) -> tensor<8x75xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg3: tensor<8x75xf32>):
    %3 = "stablehlo.constant"() <{value = dense<"0x010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000010000"> : tensor<8x75xi1>}> : () -> tensor<8x75xi1>
    %4 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %5 = "func.call"(%3, %arg3, %4) <{callee = @_where}> : (tensor<8x75xi1>, tensor<8x75xf32>, tensor<i32>) -> tensor<8x75xf32>
    "func.return"(%5) : (tensor<8x75xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}, {}, {}], function_type = (tensor<8x75xi1>, tensor<8x75xf32>, tensor<i32>) -> tensor<8x75xf32>, res_attrs = [{}], sym_name = "_where", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<8x75xi1>, %arg1: tensor<8x75xf32>, %arg2: tensor<i32>):
    %0 = "stablehlo.convert"(%arg2) : (tensor<i32>) -> tensor<f32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<8x75xf32>
    %2 = "stablehlo.select"(%arg0, %arg1, %1) : (tensor<8x75xi1>, tensor<8x75xf32>, tensor<8x75xf32>) -> tensor<8x75xf32>
    "func.return"(%2) : (tensor<8x75xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case integer_constant
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<200xi32>) -> tensor<200xi32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<200xi32>):
    %0 = "stablehlo.constant"() <{value = dense<"0x000000000100000002000000030000000400000005000000060000000700000008000000090000000A0000000B0000000C0000000D0000000E0000000F000000100000001100000012000000130000001400000015000000160000001700000018000000190000001A0000001B0000001C0000001D0000001E0000001F000000200000002100000022000000230000002400000025000000260000002700000028000000290000002A0000002B0000002C0000002D0000002E0000002F000000300000003100000032000000330000003400000035000000360000003700000038000000390000003A0000003B0000003C0000003D0000003E0000003F000000400000004100000042000000430000004400000045000000460000004700000048000000490000004A0000004B0000004C0000004D0000004E0000004F000000500000005100000052000000530000005400000055000000560000005700000058000000590000005A0000005B0000005C0000005D0000005E0000005F000000600000006100000062000000630000006400000065000000660000006700000068000000690000006A0000006B0000006C0000006D0000006E0000006F000000700000007100000072000000730000007400000075000000760000007700000078000000790000007A0000007B0000007C0000007D0000007E0000007F000000800000008100000082000000830000008400000085000000860000008700000088000000890000008A0000008B0000008C0000008D0000008E0000008F000000900000009100000092000000930000009400000095000000960000009700000098000000990000009A0000009B0000009C0000009D0000009E0000009F000000A0000000A1000000A2000000A3000000A4000000A5000000A6000000A7000000A8000000A9000000AA000000AB000000AC000000AD000000AE000000AF000000B0000000B1000000B2000000B3000000B4000000B5000000B6000000B7000000B8000000B9000000BA000000BB000000BC000000BD000000BE000000BF000000C0000000C1000000C2000000C3000000C4000000C5000000C6000000C7000000"> : tensor<200xi32>}> : () -> tensor<200xi32>
    %1 = "stablehlo.add"(%arg0, %0) : (tensor<200xi32>, tensor<200xi32>) -> tensor<200xi32>
    "func.return"(%1) : (tensor<200xi32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case iota
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x5xf32>) -> tensor<3x5xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3x5xf32>):
    %0 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<3x5xf32>
    %1 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<5xf32>
    %2 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64: 1>}> : (tensor<5xf32>) -> tensor<1x5xf32>
    %3 = "stablehlo.broadcast_in_dim"(%2) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<1x5xf32>) -> tensor<3x5xf32>
    %4 = "stablehlo.multiply"(%0, %3) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
    %5 = "stablehlo.add"(%arg0, %4) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
    "func.return"(%5) : (tensor<3x5xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case broadcast
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x5xf32>) -> (tensor<4x3x5xf32>, tensor<3x5xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3x5xf32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<3x5xf32>) -> tensor<4x3x5xf32>
    %1 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 3, 1>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<3x5xf32>) -> tensor<3x1xf32>
    %2 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64: 0, 1>}> : (tensor<3x1xf32>) -> tensor<3x5xf32>
    "func.return"(%0, %2) : (tensor<4x3x5xf32>, tensor<3x5xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case broadcast_moved
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3xf32>) -> tensor<2x3x4xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3xf32>):
    %0 = "stablehlo.constant"() <{value = dense<[[[-1.38591778, 1.87880993, -0.853931963, -1.01152134], [2.51780987, 2.22044015, 0.242304936, 1.95225656], [2.20177722, 1.61664581, 0.515120387, 1.42778504]], [[-2.66918612, -1.03664136, 0.12882404, -2.25855899], [-1.75452018, -1.91735184, -1.56015956, -0.772141337], [-1.26206946, 2.554580e+00, -2.85153127, 0.392940938]]]> : tensor<2x3x4xf32>}> : () -> tensor<2x3x4xf32>
    %1 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> tensor<2x3x4xf32>
    %2 = "stablehlo.add"(%1, %0) : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
    "func.return"(%2) : (tensor<2x3x4xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case broadcast_twice
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3xf32>) -> tensor<2x3x4xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3xf32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 0>}> : (tensor<3xf32>) -> tensor<3x1xf32>
    %1 = "stablehlo.constant"() <{value = dense<2.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %2 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x1xf32>
    %3 = "stablehlo.multiply"(%0, %2) : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
    %4 = "stablehlo.broadcast_in_dim"(%3) <{broadcast_dimensions = array<i64: 1, 2>}> : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
    "func.return"(%4) : (tensor<2x3x4xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case broadcast_then_reshape
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3xf32>) -> tensor<2x6xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3xf32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> tensor<4x3xf32>
    %1 = "stablehlo.reshape"(%0) : (tensor<4x3xf32>) -> tensor<2x6xf32>
    "func.return"(%1) : (tensor<2x6xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case broadcast_then_transpose
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3xf32>) -> tensor<3x4xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3xf32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> tensor<4x3xf32>
    %1 = "stablehlo.transpose"(%0) <{permutation = array<i64: 1, 0>}> : (tensor<4x3xf32>) -> tensor<3x4xf32>
    "func.return"(%1) : (tensor<3x4xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case reshape
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<2x3x4xf32>) -> tensor<2x12xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<2x3x4xf32>):
    %0 = "stablehlo.reshape"(%arg0) : (tensor<2x3x4xf32>) -> tensor<2x12xf32>
    %1 = "stablehlo.constant"() <{value = dense<1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %2 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<2x12xf32>
    %3 = "stablehlo.add"(%0, %2) : (tensor<2x12xf32>, tensor<2x12xf32>) -> tensor<2x12xf32>
    "func.return"(%3) : (tensor<2x12xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case transpose
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<2x3x4xf32>):
    %0 = "stablehlo.transpose"(%arg0) <{permutation = array<i64: 2, 0, 1>}> : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
    "func.return"(%0) : (tensor<4x2x3xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case reverse
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<2x3x4xf32>):
    %0 = "stablehlo.reverse"(%arg0) <{dimensions = array<i64: 0, 2>}> : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
    "func.return"(%0) : (tensor<2x3x4xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case slice
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<2x3x4xf32>) -> tensor<2x2x2xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<2x3x4xf32>):
    %0 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 2, 3, 4>, start_indices = array<i64: 0, 1, 0>, strides = array<i64: 1, 1, 2>}> : (tensor<2x3x4xf32>) -> tensor<2x2x2xf32>
    "func.return"(%0) : (tensor<2x2x2xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case concatenate
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<7x5xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3x5xf32>, %arg1: tensor<3x5xf32>):
    %0 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 1, 5>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<3x5xf32>) -> tensor<1x5xf32>
    %1 = "stablehlo.concatenate"(%arg0, %arg1, %0) <{dimension = 0 : i64}> : (tensor<3x5xf32>, tensor<3x5xf32>, tensor<1x5xf32>) -> tensor<7x5xf32>
    "func.return"(%1) : (tensor<7x5xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case stack
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x2x5xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3x5xf32>, %arg1: tensor<3x5xf32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<3x5xf32>) -> tensor<3x1x5xf32>
    %1 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64: 0, 2>}> : (tensor<3x5xf32>) -> tensor<3x1x5xf32>
    %2 = "stablehlo.concatenate"(%0, %1) <{dimension = 1 : i64}> : (tensor<3x1x5xf32>, tensor<3x1x5xf32>) -> tensor<3x2x5xf32>
    "func.return"(%2) : (tensor<3x2x5xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case split
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<2x3x4xf32>) -> (tensor<2x3x2xf32>, tensor<2x3x2xf32>), res_attrs = [{jax.result_info = "result[0]"}, {jax.result_info = "result[1]"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<2x3x4xf32>):
    %0 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 2, 3, 2>, start_indices = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>}> : (tensor<2x3x4xf32>) -> tensor<2x3x2xf32>
    %1 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 2, 3, 4>, start_indices = array<i64: 0, 0, 2>, strides = array<i64: 1, 1, 1>}> : (tensor<2x3x4xf32>) -> tensor<2x3x2xf32>
    "func.return"(%0, %1) : (tensor<2x3x2xf32>, tensor<2x3x2xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case pad
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x5xf32>) -> tensor<6x6xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3x5xf32>):
    %0 = "stablehlo.constant"() <{value = dense<1.500000e+00> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.pad"(%arg0, %0) <{edge_padding_high = array<i64: 2, 1>, edge_padding_low = array<i64: 1, 0>, interior_padding = array<i64: 0, 0>}> : (tensor<3x5xf32>, tensor<f32>) -> tensor<6x6xf32>
    "func.return"(%1) : (tensor<6x6xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case pad_negative
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x5xf32>) -> tensor<4x4xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3x5xf32>):
    %0 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.pad"(%arg0, %0) <{edge_padding_high = array<i64: 2, -2>, edge_padding_low = array<i64: -1, 1>, interior_padding = array<i64: 0, 0>}> : (tensor<3x5xf32>, tensor<f32>) -> tensor<4x4xf32>
    "func.return"(%1) : (tensor<4x4xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case pad_interior
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x5xf32>) -> tensor<8x10xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3x5xf32>):
    %0 = "stablehlo.constant"() <{value = dense<-1.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %1 = "stablehlo.pad"(%arg0, %0) <{edge_padding_high = array<i64: 0, 1>, edge_padding_low = array<i64: 1, 0>, interior_padding = array<i64: 2, 1>}> : (tensor<3x5xf32>, tensor<f32>) -> tensor<8x10xf32>
    "func.return"(%1) : (tensor<8x10xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case pad_integers
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x5xi32>) -> tensor<6x6xi32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3x5xi32>):
    %0 = "stablehlo.constant"() <{value = dense<4> : tensor<i32>}> : () -> tensor<i32>
    %1 = "stablehlo.pad"(%arg0, %0) <{edge_padding_high = array<i64: 2, 1>, edge_padding_low = array<i64: 1, 0>, interior_padding = array<i64: 0, 0>}> : (tensor<3x5xi32>, tensor<i32>) -> tensor<6x6xi32>
    "func.return"(%1) : (tensor<6x6xi32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case tile
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x5xf32>) -> tensor<6x15xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<3x5xf32>):
    %0 = "stablehlo.reshape"(%arg0) : (tensor<3x5xf32>) -> tensor<1x3x1x5xf32>
    %1 = "stablehlo.broadcast_in_dim"(%0) <{broadcast_dimensions = array<i64: 0, 1, 2, 3>}> : (tensor<1x3x1x5xf32>) -> tensor<2x3x3x5xf32>
    %2 = "stablehlo.reshape"(%1) : (tensor<2x3x3x5xf32>) -> tensor<6x15xf32>
    "func.return"(%2) : (tensor<6x15xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case roll
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x5xf32>) -> tensor<3x5xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg1: tensor<3x5xf32>):
    %3 = "func.call"(%arg1) <{callee = @_roll_static}> : (tensor<3x5xf32>) -> tensor<3x5xf32>
    "func.return"(%3) : (tensor<3x5xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<3x5xf32>) -> tensor<3x5xf32>, res_attrs = [{}], sym_name = "_roll_static", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<3x5xf32>):
    %0 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 3, 5>, start_indices = array<i64: 0, 3>, strides = array<i64: 1, 1>}> : (tensor<3x5xf32>) -> tensor<3x2xf32>
    %1 = "stablehlo.slice"(%arg0) <{limit_indices = array<i64: 3, 3>, start_indices = array<i64: 0, 0>, strides = array<i64: 1, 1>}> : (tensor<3x5xf32>) -> tensor<3x3xf32>
    %2 = "stablehlo.concatenate"(%0, %1) <{dimension = 1 : i64}> : (tensor<3x2xf32>, tensor<3x3xf32>) -> tensor<3x5xf32>
    "func.return"(%2) : (tensor<3x5xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case tril
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x4xf32>) -> tensor<4x4xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg1: tensor<4x4xf32>):
    %9 = "func.call"(%arg1) <{callee = @tril}> : (tensor<4x4xf32>) -> tensor<4x4xf32>
    "func.return"(%9) : (tensor<4x4xf32>) -> ()
  }) : () -> ()
  "func.func"() <{arg_attrs = [{}], function_type = (tensor<4x4xf32>) -> tensor<4x4xf32>, res_attrs = [{}], sym_name = "tril", sym_visibility = "private"}> ({
  ^bb0(%arg0: tensor<4x4xf32>):
    %0 = "stablehlo.iota"() <{iota_dimension = 0 : i64}> : () -> tensor<4x4xi32>
    %1 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %2 = "stablehlo.broadcast_in_dim"(%1) <{broadcast_dimensions = array<i64>}> : (tensor<i32>) -> tensor<4x4xi32>
    %3 = "stablehlo.add"(%0, %2) : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi32>
    %4 = "stablehlo.iota"() <{iota_dimension = 1 : i64}> : () -> tensor<4x4xi32>
    %5 = "stablehlo.compare"(%3, %4) <{compare_type = #stablehlo<comparison_type SIGNED>, comparison_direction = #stablehlo<comparison_direction GE>}> : (tensor<4x4xi32>, tensor<4x4xi32>) -> tensor<4x4xi1>
    %6 = "stablehlo.constant"() <{value = dense<0.000000e+00> : tensor<f32>}> : () -> tensor<f32>
    %7 = "stablehlo.broadcast_in_dim"(%6) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<4x4xf32>
    %8 = "stablehlo.select"(%5, %arg0, %7) : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "func.return"(%8) : (tensor<4x4xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
// case scalar
"builtin.module"() <{sym_name = "jit__lambda"}> ({
  "func.func"() <{arg_attrs = [{}, {}], function_type = (tensor<f32>, tensor<3x5xf32>) -> tensor<3x5xf32>, res_attrs = [{jax.result_info = "result"}], sym_name = "main", sym_visibility = "public"}> ({
  ^bb0(%arg0: tensor<f32>, %arg1: tensor<3x5xf32>):
    %0 = "stablehlo.broadcast_in_dim"(%arg0) <{broadcast_dimensions = array<i64>}> : (tensor<f32>) -> tensor<3x5xf32>
    %1 = "stablehlo.multiply"(%0, %arg1) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
    "func.return"(%1) : (tensor<3x5xf32>) -> ()
  }) : () -> ()
}) {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} : () -> ()
